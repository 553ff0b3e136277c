from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport strchr

cdef extern from "reader.h" nogil:
    enum: KVF_HIT, KVF_ABSENT, KVF_TOO_SMALL, KVF_CHANGING, KVF_NO_LINE, KVF_FOREIGN, KVF_CORRUPT
    enum: KVF_BESIDE
    ctypedef struct kvf_stay:
        uint64_t slot, tag, offset, length
    ctypedef struct kvf_index_reader:
        kvf_index index, beside
        kvf_lines *lines
        const char *pool
        uint64_t pool_length
        const kvf_variant *nt
    uint64_t kvf_generation(uint64_t tag)
    void kvf_exists_all(const kvf_index_reader *, const kvf_digest *, size_t, uint8_t *)
    void kvf_read_all(kvf_index_reader *, const kvf_digest *, const uint64_t *to, const uint64_t *rooms,
                      size_t, uint8_t *, uint64_t *)
    uint64_t kvf_sum(const uint64_t *, size_t)
    int kvf_hold_one(kvf_index_reader *, kvf_digest, kvf_stay *, uint64_t *line)
    bint kvf_let_go(kvf_lines *, uint64_t line, uint64_t generation)


HIT, ABSENT, TOO_SMALL, CHANGING = KVF_HIT, KVF_ABSENT, KVF_TOO_SMALL, KVF_CHANGING
NO_LINE, FOREIGN, CORRUPT, BESIDE = KVF_NO_LINE, KVF_FOREIGN, KVF_CORRUPT, KVF_BESIDE


# Uses what `lines` holds, which must be whole as long as this is called, in a dead cycle, too: no_gc.
@cython.no_gc
cdef class IndexReader:
    cdef kvf_index_reader reader
    cdef kvf_secret secret
    cdef Lines lines

    def __cinit__(self, uintptr_t address, uint64_t length, uint64_t epoch, uintptr_t pool,
                  uint64_t pool_length, Lines lines not None, bytes secret not None,
                  tuple beside=None):
        if not kvf_index_at(&self.reader.index, address, length, epoch):
            raise ValueError("an index begins at a cache line and has a pair of buckets")
        if beside is not None:
            if not kvf_index_at(&self.reader.beside, beside[0], beside[1], epoch):
                raise ValueError("an index begins at a cache line and has a pair of buckets")
        self.lines = lines
        self.secret = secret_of(secret)
        self.reader.lines = &lines.lines
        self.reader.pool, self.reader.pool_length = <const char *>pool, pool_length
        self.reader.nt = kvf_best_nt()

    def exists(self, const uint64_t[:, ::1] digests):
        cdef const kvf_digest *d = digests_at(digests)
        cdef size_t n = digests.shape[0]
        found = _numpy.empty(n, "u1")
        cdef uint8_t[::1] codes = found
        state = let_others_run(n)
        kvf_exists_all(&self.reader, d, n, &codes[0])
        run_again(state)
        return found

    def get_into(self, const uint64_t[:, ::1] digests, const uint64_t[::1] addresses,
                 const uint64_t[::1] rooms):
        cdef size_t n = digests.shape[0]
        check_lengths(n, addresses.shape[0])
        check_lengths(n, rooms.shape[0])
        return self.read_all(digests_at(digests), words_at(addresses), words_at(rooms), n)

    cdef tuple read_all(self, const kvf_digest *d, const uint64_t *to, const uint64_t *rooms,
                        size_t n):
        statuses, lengths = _numpy.empty(n, "u1"), _numpy.empty(n, "u8")
        cdef uint8_t[::1] codes = statuses
        cdef uint64_t[::1] each = lengths
        state = let_others_run(n, kvf_sum(rooms, n))
        kvf_read_all(&self.reader, d, to, rooms, n, &codes[0], &each[0])
        run_again(state)
        return statuses, lengths

    def get(self, key, out):
        cdef uint64_t to, room, length = 0
        cdef kvf_digest d = digest_of(self.secret, key)
        cdef uint8_t code = 0
        cdef Py_buffer buffer
        target_of(out, &buffer)
        to, room = <uint64_t>buffer.buf, buffer.len
        state = let_others_run(1, room)
        kvf_read_all(&self.reader, &d, &to, &room, 1, &code, &length)
        run_again(state)
        PyBuffer_Release(&buffer)
        return code, length

    def get_all(self, keys, outs):
        cdef tuple targets = tuple(outs)
        cdef size_t n = len(targets), i
        cdef uint64_t[:, ::1] digests = digest_all(self.secret, keys)
        check_lengths(n, digests.shape[0])
        cdef Py_buffer *buffers = <Py_buffer *>calloc(n + 1, sizeof(Py_buffer))
        cdef uint64_t *to = <uint64_t *>calloc(2 * n + 1, sizeof(uint64_t))
        try:
            if buffers == NULL or to == NULL:
                raise MemoryError
            for i in range(n):
                target_of(targets[i], &buffers[i])
                to[i], to[n + i] = <uint64_t>buffers[i].buf, buffers[i].len
            return self.read_all(digests_at(digests), to, to + n, n)
        finally:
            release_all(buffers, n)
            free(to)

    def hold(self, key):
        cdef kvf_digest d = digest_of(self.secret, key)
        cdef kvf_stay stay
        cdef uint64_t line = 0
        cdef int code = kvf_hold_one(&self.reader, d, &stay, &line)
        if code != KVF_HIT:
            return code, 0, 0, 0, 0
        return (code, <uint64_t>self.reader.pool + stay.offset, stay.length,
                kvf_generation(stay.tag), line)

    def block(self, key, owner):
        return block_of(self, key, owner)

    def let_go(self, uint64_t line, uint64_t generation):
        return kvf_let_go(self.reader.lines, line, generation)


cdef int target_of(object out, Py_buffer *buffer) except -1:
    # Contiguous, since there are no strides. Bytes over references would be the end of the process.
    PyObject_GetBuffer(out, buffer, PyBUF_ND | PyBUF_FORMAT | PyBUF_WRITABLE)
    if buffer.format != NULL and strchr(buffer.format, c"O") != NULL:
        PyBuffer_Release(buffer)
        raise BufferError("a buffer may hold objects, not bytes")
    return 0


cdef release_all(Py_buffer *buffers, size_t n):
    cdef size_t i
    for i in range(n if buffers != NULL else 0):
        PyBuffer_Release(&buffers[i])  # does nothing where none was got
    free(buffers)
