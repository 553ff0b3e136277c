# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The typed doors to the native core: one .pxi per header, no logic of their own."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from posix.unistd cimport getpid

cimport cython

include "vm.pxi"
include "wait.pxi"
include "gate.pxi"
include "descriptor.pxi"
include "resolve.pxi"
include "done.pxi"
include "copy.pxi"
include "engines.pxi"
include "pulse.pxi"
include "flight.pxi"
