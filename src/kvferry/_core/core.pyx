# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The typed doors to the native core: one .pxi per header, no logic of their own."""

from cpython.exc cimport PyErr_CheckSignals, PyErr_Occurred
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from posix.unistd cimport getpid

import numpy as _numpy

cimport cython

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_init(pthread_mutex_t *, const void *)
    int pthread_mutex_lock(pthread_mutex_t *)
    int pthread_mutex_unlock(pthread_mutex_t *)
    int pthread_mutex_destroy(pthread_mutex_t *)

include "vm.pxi"
include "wait.pxi"
include "gate.pxi"
include "descriptor.pxi"
include "resolve.pxi"
include "reach.pxi"
include "done.pxi"
include "mover.pxi"
include "copy.pxi"
include "engines.pxi"
include "pulse.pxi"
include "watch.pxi"
include "beat.pxi"
include "process.pxi"
include "acl.pxi"
include "pool.pxi"
include "bounce.pxi"
include "wire.pxi"
include "limit_socket.pxi"
include "limit_acl.pxi"
include "flight.pxi"
include "hash.pxi"
include "index.pxi"
include "lines.pxi"
include "reader.pxi"
include "block.pxi"
include "leases.pxi"
include "ledger.pxi"
include "ghosts.pxi"
include "queue.pxi"
include "trees.pxi"
include "desk.pxi"
include "clerk.pxi"
include "fill.pxi"
include "quant.pxi"
include "disk.pxi"
include "places.pxi"
include "locate.pxi"
include "spans.pxi"
include "pieces.pxi"
include "piecewise.pxi"
include "cover.pxi"
