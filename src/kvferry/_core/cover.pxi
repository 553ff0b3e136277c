cdef extern from "cover.h" nogil:
    ctypedef struct kvf_cover:
        void *rows
    bint kvf_cover_add(kvf_cover *, uint64_t begin, uint64_t end)
    bint kvf_cover_whole(const kvf_cover *, uint64_t size)


# Under the GIL, which is what makes it thread-safe.
@cython.final
cdef class Cover:
    cdef kvf_cover *covers
    cdef size_t n

    def __cinit__(self, size_t n):
        self.n = n
        self.covers = <kvf_cover *>calloc(n + 1, sizeof(kvf_cover))
        if self.covers == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.n if self.covers != NULL else 0):
            free(self.covers[i].rows)
        free(self.covers)

    def add(self, const int64_t[::1] values, Rows rows not None, const uint64_t[::1] offsets not None):
        cdef kvf_pieces p = rows.at(offsets)
        cdef uint64_t i, j
        check_lengths(p.n, values.shape[0])
        check_slots(values, self.n)
        for i in range(p.n):
            for j in range(p.starts[i], p.starts[i + 1]):
                if not kvf_cover_add(&self.covers[values[i]], p.offsets[j], p.offsets[j] + p.lengths[j]):
                    raise MemoryError

    def whole(self, const int64_t[::1] values, const uint64_t[::1] sizes):
        check_lengths(values.shape[0], sizes.shape[0])
        check_slots(values, self.n)
        found = _numpy.empty(values.shape[0], "?")
        cdef uint8_t[::1] are = found.view("u1")
        cdef Py_ssize_t i
        for i in range(values.shape[0]):
            are[i] = kvf_cover_whole(&self.covers[values[i]], sizes[i])
        return found
