from cpython.memoryview cimport PyMemoryView_FromObject

cdef extern from "pieces.h" nogil:
    enum: KVF_BEYOND
    ctypedef struct kvf_pieces:
        const uint64_t *starts
        const uint64_t *addresses
        const uint64_t *lengths
        const uint64_t *offsets
        size_t n
    bint kvf_starts_sound(const uint64_t *starts, size_t n, uint64_t pieces)
    size_t kvf_pieces_lay(const kvf_pieces *, uint64_t *offsets, uint64_t *sizes)
    size_t kvf_pieces_misfit(const kvf_pieces *, const uint64_t *rooms)
    void kvf_gather_all(const kvf_variant *, const kvf_pieces *, const uint64_t *to, uint64_t run)


BEYOND = KVF_BEYOND


cdef object own_words(object words):
    # A copy, so that what was checked stays as it was.
    if not isinstance(words, _numpy.ndarray):
        flat = list(words)
        words = numbers_in(flat, _numpy.array([0, len(flat)], "u8"))
    if words.dtype.kind not in "iu" or words.ndim != 1:
        raise TypeError("columns of pieces are integers")
    if words.dtype.kind == "i" and words.size and words.min() < 0:
        raise ValueError("a number of pieces is negative")
    own = words.astype("u8", order="C", copy=True)
    own.flags.writeable = False
    return own


# Uses arrays of its own, which must be whole as long as this is called: no_gc.
@cython.no_gc
cdef class Rows:
    cdef kvf_pieces pieces
    cdef uint64_t bytes
    cdef readonly object starts, addresses, lengths, offsets, sizes, kept
    cdef readonly bint readonly

    def __cinit__(self, starts, addresses, lengths, kept=None, *, bint readonly=False):
        self.starts, self.addresses = own_words(starts), own_words(addresses)
        self.lengths, self.kept, self.readonly = own_words(lengths), kept, readonly
        cdef const uint64_t[::1] begins = self.starts, at = self.addresses, each = self.lengths
        check_lengths(at.shape[0], each.shape[0])
        if not begins.shape[0] or not kvf_starts_sound(&begins[0], begins.shape[0] - 1, at.shape[0]):
            raise ValueError("rows of pieces begin at 0, and end with all of them")
        self.pieces = [&begins[0], words_at(at), words_at(each), NULL, begins.shape[0] - 1]
        self.lay()

    cdef int lay(self) except -1:
        offsets, sizes = _numpy.empty(len(self.lengths), "u8"), _numpy.empty(self.pieces.n, "u8")
        cdef uint64_t[::1] at = offsets, each = sizes
        cdef size_t i = kvf_pieces_lay(&self.pieces, &at[0], &each[0])
        if i < self.pieces.n:
            raise ValueError(f"row {i} is longer than the address space")
        offsets.flags.writeable = sizes.flags.writeable = False
        self.offsets, self.sizes, self.pieces.offsets = offsets, sizes, &at[0]
        self.bytes = kvf_sum(&each[0], self.pieces.n)
        return 0

    def __len__(self):
        return self.pieces.n

    def gather(self, const uint64_t[::1] bases not None, const uint64_t[::1] rooms not None,
               const uint64_t[::1] offsets=None):
        cdef kvf_pieces p = self.at(offsets)
        check_lengths(p.n, bases.shape[0])
        check_lengths(p.n, rooms.shape[0])
        cdef size_t i = kvf_pieces_misfit(&p, words_at(rooms))
        if i < p.n:
            raise ValueError(f"row {i} has a piece beyond its {rooms[i]} bytes")
        state = let_others_run(p.n, self.bytes)
        kvf_gather_all(kvf_best_nt(), &p, words_at(bases), self.bytes)
        run_again(state)

    cdef kvf_pieces at(self, const uint64_t[::1] offsets) except *:
        cdef kvf_pieces p = self.pieces
        if offsets is not None:
            check_lengths(len(self.lengths), offsets.shape[0])
            p.offsets = words_at(offsets)
        return p


def offsets_of(Rows rows not None, offsets):
    """One for each piece, whether they come in rows or not."""
    if isinstance(offsets, _numpy.ndarray):
        found = own_words(offsets)
        check_lengths(len(rows.lengths), len(found))
        return found
    cdef list each = list(offsets)
    starts = _numpy.zeros(len(each) + 1, "u8")
    flat = in_rows(each, NUMBERS, starts)
    if len(flat) != len(rows.lengths):
        raise ValueError(f"{len(flat)} offsets and {len(rows.lengths)} pieces")
    in_row = any([isinstance(one, NUMBERS) for one in each])
    if in_row and not _numpy.array_equal(starts, rows.starts):
        raise ValueError("a row has not as many offsets as pieces")
    return numbers_in(flat, starts)


def collect(rows, bint writable):
    """Rows of buffers, or of one buffer each: what Rows is made of."""
    cdef tuple owned = tuple(rows)
    cdef size_t n, i
    cdef Py_buffer *buffer
    starts = _numpy.zeros(len(owned) + 1, "u8")
    cdef list flat = in_rows(owned, BUFFERS, starts), views = []
    n = len(flat)
    places, sizes = _numpy.empty((2, n), "u8")
    cdef uint64_t[::1] at = places, each = sizes
    cdef bint readonly = False
    for i in range(n):
        view = PyMemoryView_FromObject(flat[i])
        buffer = PyMemoryView_GET_BUFFER(view)
        if buffer.format != NULL and strchr(buffer.format, c"O") != NULL:
            raise BufferError("a piece may hold objects, not bytes")
        if not PyBuffer_IsContiguous(buffer, c"C"):
            raise BufferError("a piece is not contiguous")
        readonly = readonly or buffer.readonly
        if writable and buffer.readonly:
            raise PermissionError(row_at(starts, i))
        views.append(view)
        at[i], each[i] = <uint64_t>buffer.buf, buffer.len
    return starts, places, sizes, tuple(views), readonly
