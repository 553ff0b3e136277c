cdef extern from "beat.h" nogil:
    enum: KVF_BEAT, KVF_HEARD, KVF_SILENT, KVF_LONG_SILENT, KVF_BEAT_ENDED
    ctypedef struct kvf_beats:
        int bell
        bint muted
    ctypedef struct kvf_news:
        uint64_t number
        int reading
    kvf_beats *kvf_beats_new(uint64_t)
    int kvf_beats_add(kvf_beats *, int, bint, uint64_t, uint64_t, uint64_t *)
    void kvf_beats_remove(kvf_beats *, uint64_t)
    unsigned kvf_beats_news(kvf_beats *, kvf_news *, unsigned)
    void kvf_beats_stop(kvf_beats *)
    void kvf_beats_drop(kvf_beats *)
    void kvf_beats_free(kvf_beats *)

BEAT = bytes([KVF_BEAT])
HEARD, SILENT, LONG_SILENT, BEAT_ENDED = KVF_HEARD, KVF_SILENT, KVF_LONG_SILENT, KVF_BEAT_ENDED

cdef enum: NEWS_AT_ONCE = 64


@cython.no_gc
cdef class Beats:
    cdef kvf_beats *beats
    cdef int pid

    def __cinit__(self, uint64_t every):
        self.pid = getpid()
        self.beats = kvf_beats_new(every)
        if self.beats == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.beats == NULL:
            return
        if getpid() == self.pid:
            with nogil:
                kvf_beats_stop(self.beats)
        kvf_beats_free(self.beats)

    @property
    def bell(self):
        return self.beats.bell

    def add(self, int fd, bint called, uint64_t suspect, uint64_t dead):
        cdef uint64_t number = 0
        cdef int code
        with nogil:
            code = kvf_beats_add(self.beats, fd, called, suspect, dead, &number)
        return code, number

    def remove(self, uint64_t number):
        if getpid() == self.pid:
            with nogil:
                kvf_beats_remove(self.beats, number)

    def news(self):
        cdef kvf_news news[NEWS_AT_ONCE]
        cdef unsigned found, i
        with nogil:
            found = kvf_beats_news(self.beats, news, NEWS_AT_ONCE)
        return [(news[i].number, news[i].reading) for i in range(found)]

    def mute(self, bint muted):
        self.beats.muted = muted

    def stop(self):
        if getpid() == self.pid:
            with nogil:
                kvf_beats_stop(self.beats)

    def drop(self):
        kvf_beats_drop(self.beats)
