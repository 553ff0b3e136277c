from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE
from libc.stdlib cimport malloc

cdef extern from "quant.h" nogil:
    enum: KVF_AXES, KVF_ELEMENTS, KVF_CODES, KVF_F16, KVF_BF16, KVF_F32, KVF_INT8, KVF_FP8
    enum: KVF_QUANTISED, KVF_NOT_FINITE, KVF_BAD_SCALE
    ctypedef int kvf_element
    ctypedef int kvf_quantised
    ctypedef struct kvf_axes:
        size_t count
        uint64_t *extent
        uint64_t *stride
    ctypedef struct kvf_quant:
        kvf_axes axes
        uint64_t channels
        uint32_t *scratch
    ctypedef kvf_quantised (*kvf_quant_move)(const kvf_quant *, const char *, char *)
    ctypedef struct kvf_quant_variant:
        const char *name
        kvf_quant_move encode[3][2]
        kvf_quant_move decode[3][2]
    const kvf_quant_variant *kvf_quant_variants
    size_t kvf_quant_runs()
    size_t kvf_element_size(kvf_element)
    uint64_t kvf_axes_rows(const kvf_axes *)
    uint64_t kvf_last_channel(const kvf_axes *)

F16, BF16, F32, INT8, FP8 = KVF_F16, KVF_BF16, KVF_F32, KVF_INT8, KVF_FP8
QUANTISED, NOT_FINITE, BAD_SCALE = KVF_QUANTISED, KVF_NOT_FINITE, KVF_BAD_SCALE
MOST_AXES = KVF_AXES


def quant_variants():
    return [kvf_quant_variants[i].name.decode() for i in range(kvf_quant_runs())]


cdef class Quantiser:
    cdef kvf_quant quant
    cdef uint64_t elements, raw, encoded
    cdef kvf_quant_move encodes, decodes

    def __cinit__(self, int element, int code, axes, uint64_t channels, size_t variant=-1):
        cdef kvf_axes *a = &self.quant.axes
        if not 0 <= element < KVF_ELEMENTS or not 0 <= code < KVF_CODES:
            raise ValueError("no such element or code")
        if not 0 < len(axes) <= KVF_AXES:
            raise ValueError(f"1 to {KVF_AXES} axes, not {len(axes)}")
        variant = min(variant, kvf_quant_runs() - 1)
        a.count = len(axes)
        for i, (extent, stride) in enumerate(axes):
            a.extent[i], a.stride[i] = extent, stride
            if not extent:
                raise ValueError("an axis is empty")
        if a.stride[a.count - 1] > 1 or kvf_last_channel(a) >= channels:
            raise ValueError("axes that lead out of the channels")
        self.quant.channels = channels
        self.elements = kvf_axes_rows(a) * a.extent[a.count - 1]
        self.raw = self.elements * kvf_element_size(element)
        self.encoded = channels * sizeof(uint32_t) + self.elements
        self.encodes = kvf_quant_variants[variant].encode[element][code]
        self.decodes = kvf_quant_variants[variant].decode[element][code]

    @property
    def raw_bytes(self):
        return self.raw

    @property
    def encoded_bytes(self):
        return self.encoded

    def encode(self, raw, encoded):
        return self.move(self.encodes, raw, self.raw, encoded, self.encoded)

    def decode(self, encoded, raw):
        return self.move(self.decodes, encoded, self.encoded, raw, self.raw)

    cdef move(self, kvf_quant_move way, source, uint64_t source_bytes, target,
              uint64_t target_bytes):
        cdef Py_buffer here, there
        cdef kvf_quant quant = self.quant
        cdef kvf_quantised outcome
        memset(&here, 0, sizeof(here))
        memset(&there, 0, sizeof(there))
        quant.scratch = <uint32_t *>malloc(quant.channels * sizeof(uint32_t))
        if quant.scratch == NULL:
            raise MemoryError
        try:
            PyObject_GetBuffer(source, &here, PyBUF_SIMPLE)
            PyObject_GetBuffer(target, &there, PyBUF_WRITABLE)
            if here.len != <Py_ssize_t>source_bytes or there.len != <Py_ssize_t>target_bytes:
                raise ValueError(f"from {source_bytes} to {target_bytes} bytes, "
                                 f"not {here.len} to {there.len}")
            with nogil:
                outcome = way(&quant, <const char *>here.buf, <char *>there.buf)
        finally:
            PyBuffer_Release(&here)
            PyBuffer_Release(&there)
            free(quant.scratch)
        return outcome
