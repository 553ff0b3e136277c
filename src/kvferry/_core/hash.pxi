from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        pass
    PyThreadState *PyEval_SaveThread()
    void PyEval_RestoreThread(PyThreadState *)

cdef extern from "hash.h" nogil:
    ctypedef struct kvf_digest:
        uint64_t half[2]
    ctypedef struct kvf_secret:
        pass
    ctypedef struct kvf_key:
        const void *bytes
        size_t length
    kvf_secret kvf_secret_of(const void *bytes16)
    kvf_digest kvf_hash(kvf_secret, kvf_key)
    void kvf_hash_all(kvf_secret, const kvf_key *, size_t, kvf_digest *)


# Below these a batch is over sooner than the GIL would come back from a thread that computes.
cdef enum: BRIEF_BYTES = 65536, BRIEF_KEYS = 256


cdef inline PyThreadState *let_others_run(size_t keys, uint64_t bytes=0) noexcept:
    """Release the GIL when there is much to do; `run_again` takes it back."""
    return PyEval_SaveThread() if keys > BRIEF_KEYS or bytes > BRIEF_BYTES else NULL


cdef inline void run_again(PyThreadState *state) noexcept:
    if state != NULL:
        PyEval_RestoreThread(state)


cdef int key_of(object each, kvf_key *key) except -1:
    cdef Py_ssize_t length
    if isinstance(each, str):
        key.bytes = PyUnicode_AsUTF8AndSize(each, &length)
    elif isinstance(each, bytes):
        key.bytes, length = PyBytes_AS_STRING(each), PyBytes_GET_SIZE(each)
    else:
        raise TypeError(f"a key is str or bytes, not {type(each).__name__}")
    key.length = length
    return 0


cdef kvf_secret secret_of(bytes secret) except *:
    if secret is None or PyBytes_GET_SIZE(secret) != 16:
        raise ValueError("a secret has 16 bytes")
    return kvf_secret_of(PyBytes_AS_STRING(secret))


cdef kvf_digest digest_of(kvf_secret secret, object each) except *:
    cdef kvf_key key
    key_of(each, &key)
    return kvf_hash(secret, key)


cdef digest_all(kvf_secret secret, object keys):
    cdef tuple owned = tuple(keys)  # keeps what the pointers name
    cdef size_t n = len(owned), i
    found = _numpy.empty((n, 2), "u8")
    cdef uint64_t[:, ::1] out = found
    cdef kvf_key *key = <kvf_key *>calloc(n + 1, sizeof(kvf_key))
    if key == NULL:
        raise MemoryError
    try:
        for i in range(n):
            key_of(owned[i], &key[i])
        state = let_others_run(n)
        kvf_hash_all(secret, key, n, <kvf_digest *>&out[0, 0])
        run_again(state)
    finally:
        free(key)
    return found


def digest(keys, bytes secret not None):
    return digest_all(secret_of(secret), keys)
