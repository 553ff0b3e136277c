from cpython.long cimport PyLong_AsUnsignedLongLong, PyLong_Check
from cpython.number cimport PyNumber_Index

cdef extern from "spans.h" nogil:
    ctypedef struct kvf_range:
        pass
    ctypedef struct kvf_spans:
        kvf_range *rows
        size_t n
    bint kvf_spans_add(kvf_spans *, uint64_t address, uint64_t length)
    bint kvf_spans_drop(kvf_spans *, uint64_t address)
    bint kvf_spans_hold(const kvf_spans *, uint64_t address, uint64_t length)
    size_t kvf_spans_stray(const kvf_spans *, const uint64_t *, const uint64_t *, size_t)


class Stray(LookupError):
    def __init__(self, text, row):
        super().__init__(text)
        self.row = row


cdef uint64_t number_of(object each) except? 0:
    number = each if PyLong_Check(each) else PyNumber_Index(each)
    try:
        return PyLong_AsUnsignedLongLong(number)
    except OverflowError:
        raise ValueError(f"{number} is no address and no length") from None


# What is a row of more than one: of numbers, of buffers.
cdef tuple NUMBERS = (list, tuple, _numpy.ndarray), BUFFERS = (list, tuple)


cdef list in_rows(object rows, tuple several, uint64_t[::1] starts):
    # What is in them, and where each begins.
    cdef list flat = []
    cdef size_t i = 0
    for each in rows:
        if not PyLong_Check(each) and isinstance(each, several):
            flat.extend(each)
        else:
            flat.append(each)
        i += 1
        starts[i] = len(flat)
    return flat


cdef size_t row_at(const uint64_t[::1] starts, size_t piece) noexcept:
    cdef size_t i = 0
    while starts[i + 1] <= piece:
        i += 1
    return i


cdef object numbers_in(list flat, const uint64_t[::1] starts):
    cdef size_t n = len(flat), i
    made = _numpy.empty(n, "u8")
    cdef uint64_t[::1] out = made
    for i in range(n):
        try:
            out[i] = number_of(flat[i])
        except (TypeError, ValueError) as error:
            raise type(error)(f"row {row_at(starts, i)}: {error}") from None
    return made


# Under the GIL, which is what makes it thread-safe.
@cython.final
cdef class Spans:
    cdef kvf_spans spans

    def __dealloc__(self):
        free(self.spans.rows)

    def __len__(self):
        return self.spans.n

    def add(self, address, length):
        cdef uint64_t begin = number_of(address), bytes = number_of(length)
        if not bytes or begin + bytes < begin:
            raise ValueError(f"{bytes} bytes at {begin:#x} are no range")
        if not kvf_spans_add(&self.spans, begin, bytes):
            raise MemoryError

    def drop(self, address):
        cdef uint64_t begin = number_of(address)
        if not kvf_spans_drop(&self.spans, begin):
            raise LookupError(f"no range begins at {begin:#x}")

    def window(self, address, length):
        cdef uint64_t begin = number_of(address), bytes = number_of(length)
        if not kvf_spans_hold(&self.spans, begin, bytes):
            raise Stray(f"{bytes} bytes at {begin:#x} lie in no range", 0)
        return View.__new__(View, begin, bytes, False)

    def pieces(self, addresses, lengths):
        cdef tuple rows = tuple(addresses), others = tuple(lengths)
        cdef size_t n = len(rows), i
        if <size_t>len(others) != n:
            raise ValueError(f"{n} rows of addresses and {len(others)} of lengths")
        starts, unequal = _numpy.zeros((2, n + 1), "u8")
        cdef list froms = in_rows(rows, NUMBERS, starts), sizes = in_rows(others, NUMBERS, unequal)
        if not _numpy.array_equal(starts, unequal):
            i = (starts != unequal).argmax() - 1
            raise ValueError(f"row {i} has not as many lengths as addresses")
        at, each = numbers_in(froms, starts), numbers_in(sizes, starts)
        cdef const uint64_t[::1] begin = at, bytes = each
        i = kvf_spans_stray(&self.spans, words_at(begin), words_at(bytes), at.shape[0])
        if i < <size_t>at.shape[0]:
            raise Stray(f"row {row_at(starts, i)}: {bytes[i]} bytes at {begin[i]:#x} lie in no range",
                        row_at(starts, i))
        return starts, at, each
