from cpython.buffer cimport PyBUF_STRIDES, PyBuffer_IsContiguous

cdef extern from "fill.h" nogil:
    size_t kvf_fill_misfit(const uint64_t *rooms, const uint64_t *lengths, size_t)
    void kvf_fill_all(const kvf_variant *nt, const uint64_t *to, const uint64_t *source,
                      const uint64_t *lengths, size_t, uint64_t bytes)


cdef int source_of(object each, Py_buffer *buffer, int flags=0) except -1:
    # With strides, so that one that is not contiguous is told apart from one that is no buffer.
    PyObject_GetBuffer(each, buffer, PyBUF_STRIDES | flags)
    if buffer.format != NULL and strchr(buffer.format, c"O") != NULL:
        raise BufferError("a source may hold objects, not bytes")
    if not PyBuffer_IsContiguous(buffer, c"C"):
        raise BufferError("a source is not contiguous")
    return 0


def lengths_of(sources):
    cdef tuple owned = tuple(sources)
    cdef size_t n = len(owned), i
    cdef Py_buffer buffer
    sizes = _numpy.empty(n, "u8")
    cdef uint64_t[::1] lengths = sizes
    for i in range(n):
        memset(&buffer, 0, sizeof(buffer))
        try:
            source_of(owned[i], &buffer, PyBUF_FORMAT)
            lengths[i] = buffer.len
        finally:
            PyBuffer_Release(&buffer)  # does nothing where none was got
    return sizes


cdef int write_buffers(const uint64_t *to, const uint64_t *rooms, tuple sources,
                       Py_buffer *buffers, uint64_t *begins, uint64_t *lengths) except -1:
    cdef size_t n = len(sources), i
    cdef uint64_t bytes
    for i in range(n):
        source_of(sources[i], &buffers[i])
        begins[i], lengths[i] = <uint64_t>buffers[i].buf, buffers[i].len
    i = kvf_fill_misfit(rooms, lengths, n)
    if i < n:
        raise ValueError(f"source {i} has {lengths[i]} bytes, and room for {rooms[i]}")
    bytes = kvf_sum(lengths, n)
    state = let_others_run(n, bytes)
    kvf_fill_all(kvf_best_nt(), to, begins, lengths, n, bytes)
    run_again(state)
    return 0


def write_all(const uint64_t[::1] addresses not None, const uint64_t[::1] rooms not None, sources):
    cdef tuple owned = tuple(sources)
    cdef size_t n = len(owned)
    check_lengths(n, addresses.shape[0])
    check_lengths(n, rooms.shape[0])
    sizes = _numpy.empty(n, "u8")
    cdef uint64_t[::1] lengths = sizes
    cdef Py_buffer *buffers = <Py_buffer *>calloc(n + 1, sizeof(Py_buffer) + sizeof(uint64_t))
    if buffers == NULL:
        raise MemoryError
    try:
        write_buffers(words_at(addresses), words_at(rooms), owned, buffers,
                      <uint64_t *>&buffers[n + 1], &lengths[0])
    finally:
        release_all(buffers, n)
    return sizes
