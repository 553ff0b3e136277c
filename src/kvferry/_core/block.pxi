from cpython.memoryview cimport PyMemoryView_FromObject
from posix.unistd cimport getpid


# Lets go where it ends, and uses what `reader` holds for that: no_gc.
@cython.no_gc
@cython.final
cdef class Block(View):
    cdef IndexReader reader
    cdef uint64_t line, generation
    cdef pid_t pid
    cdef object memory

    def __enter__(self):
        if self.retired or self.memory is not None:
            raise ValueError("a block is entered once")
        if getpid() != self.pid:
            raise RuntimeError("the block belongs to the parent process")
        self.memory = PyMemoryView_FromObject(self)
        return self.memory

    def __exit__(self, *exception):
        memory, self.memory = self.memory, None
        try:
            if memory is not None:
                memory.release()  # raises where an array was made of it
        finally:
            memory = None
            left = self.exports
            self.retired = True
            self._idle()
        if left:
            raise BufferError(f"{left} buffers of the block are still in use")

    cdef _idle(self):
        if self.retired and self.exports == 0:
            self.let_go()

    cdef void let_go(self):
        if self.generation and getpid() == self.pid:
            kvf_let_go(self.reader.reader.lines, self.line, self.generation)
        self.generation = 0

    def __dealloc__(self):
        self.let_go()


cdef tuple block_of(IndexReader reader, key, owner):
    cdef kvf_digest d = digest_of(reader.secret, key)
    cdef kvf_stay stay
    cdef uint64_t line = 0
    cdef int code = kvf_hold_one(&reader.reader, d, &stay, &line)
    if code != KVF_HIT:
        return code, None
    cdef uint64_t generation = kvf_generation(stay.tag)
    cdef Block block
    try:
        block = Block(<uint64_t>reader.reader.pool + stay.offset, stay.length, True, owner)
    except:
        kvf_let_go(reader.reader.lines, line, generation)
        raise
    block.reader, block.line, block.generation, block.pid = reader, line, generation, getpid()
    return code, block
