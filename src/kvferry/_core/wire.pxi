cdef extern from "<Python.h>" nogil:
    void *PyGILState_GetThisThreadState()
    int run_handlers "PyErr_CheckSignals"() noexcept

cdef extern from "wire.h" nogil:
    ctypedef struct kvf_wire:
        kvf_mover mover
        int fd
        bint dead
    kvf_wire *kvf_wire_new(int fd, int (*interrupted)() noexcept nogil)
    void kvf_wire_kill(kvf_wire *)
    void kvf_wire_close(kvf_wire *)
    void kvf_wire_free(kvf_wire *)

cdef extern from "serve.h" nogil:
    ctypedef struct kvf_server:
        pass
    kvf_server *kvf_server_new(kvf_table *)
    int kvf_server_serve(kvf_server *, int fd, uint64_t owner, kvf_visitor)
    void kvf_server_dismiss(kvf_server *, const uint64_t *owner)
    unsigned kvf_server_wires(kvf_server *)
    void kvf_server_forked(kvf_server *)
    void kvf_server_free(kvf_server *)


# A signal that comes while a run waits: its handler runs, and what it raises stops the run and stays
# set until `raise_pending`. Copy engines, which take no signals, never ask for the GIL.
cdef int handle_signals() noexcept with gil:
    return PyErr_Occurred() != NULL or run_handlers() != 0


cdef int interrupted() noexcept nogil:
    return handle_signals() if PyGILState_GetThisThreadState() != NULL else 0


cdef inline int raise_pending() except -1:
    return -1 if PyErr_Occurred() != NULL else 0


# No cycle leads through it, and its socket must be whole when it goes: no_gc.
@cython.no_gc
cdef class Wire(Mover):
    cdef kvf_wire *wire
    cdef int pid

    def __cinit__(self, int fd):
        self.pid = getpid()
        self.wire = kvf_wire_new(fd, interrupted)
        if self.wire == NULL:
            raise MemoryError
        self.mover = &self.wire.mover

    def __dealloc__(self):
        if self.wire == NULL:
            return
        if getpid() == self.pid:
            kvf_wire_kill(self.wire)
        kvf_wire_free(self.wire)

    @property
    def dead(self):
        return self.wire.dead

    def kill(self):
        kvf_wire_kill(self.wire)

    def forked(self):
        kvf_wire_close(self.wire)


# Its threads look into the table, which must be whole until they have ended: no_gc.
@cython.no_gc
cdef class WireServer:
    cdef kvf_server *server
    cdef SpanTable table
    cdef int pid

    def __cinit__(self, SpanTable table not None):
        self.table, self.pid = table, getpid()
        self.server = kvf_server_new(&table.table)
        if self.server == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.server != NULL and getpid() == self.pid:
            with nogil:
                kvf_server_dismiss(self.server, NULL)
            kvf_server_free(self.server)

    def serve(self, int fd, uint64_t owner, uint64_t epoch=0, uint32_t tenant=0, bint writes=True):
        cdef int code
        cdef kvf_visitor visitor = kvf_visitor(epoch, tenant, writes)
        with nogil:
            code = kvf_server_serve(self.server, fd, owner, visitor)
        return code

    def dismiss(self, uint64_t owner):
        with nogil:
            kvf_server_dismiss(self.server, &owner)

    def close(self):
        if getpid() == self.pid:
            with nogil:
                kvf_server_dismiss(self.server, NULL)

    def forked(self):
        kvf_server_forked(self.server)

    @property
    def wires(self):
        return kvf_server_wires(self.server)
