cdef extern from "clerk.h" nogil:
    ctypedef struct kvf_lock:
        pass
    ctypedef struct kvf_owing:
        uint64_t user, tray
    ctypedef struct kvf_clerk:
        kvf_lock lock
        uint64_t answered
        bint news
    ctypedef enum kvf_payment:
        KVF_PAID
        KVF_NOT_OWED
        KVF_NOT_SO_MANY
    bint kvf_lock_mine(const kvf_lock *)
    bint kvf_lock_try(kvf_lock *)
    void kvf_lock_take(kvf_lock *)
    void kvf_clerk_init(kvf_clerk *, kvf_ledger *, kvf_bell *)
    void kvf_clerk_free(kvf_clerk *)
    void kvf_clerk_wake(kvf_clerk *)
    void *kvf_clerk_seat_of(const kvf_clerk *, uint64_t user)
    bint kvf_clerk_seat(kvf_clerk *, uint64_t user, kvf_desk *)
    bint kvf_clerk_unseat(kvf_clerk *, uint64_t user)
    size_t kvf_clerk_owing(const kvf_clerk *, kvf_owing *, size_t)
    size_t kvf_clerk_records(const kvf_clerk *, uint64_t user, uint64_t tray, kvf_commit *)
    kvf_payment kvf_clerk_settle(kvf_clerk *, uint64_t, uint64_t, const uint8_t *, size_t)
    bint kvf_clerk_serve(kvf_clerk *, uint64_t until)
    void kvf_clerk_drop(kvf_clerk *)
    bint kvf_clerk_await(kvf_clerk *, uint64_t until)


cdef enum: OWING_AT_ONCE = 64


cdef inline void lock(kvf_lock *lock) noexcept:
    # Who holds it may wait for the GIL.
    if not kvf_lock_try(lock):
        with nogil:
            kvf_lock_take(lock)


cdef tuple columns_of(const kvf_commit *commits, size_t n):
    cdef uint64_t[:, ::1] rows = <uint64_t[:n, :8]><uint64_t *>commits if n else None
    table = _numpy.array(rows, "u8") if n else _numpy.empty((0, 8), "u8")
    return tuple(_numpy.ascontiguousarray(table[:, each])
                 for each in (0, slice(1, 3), 3, 4, slice(5, 7), 7))


# Uses what its ledger holds, which must be whole as long as this is called: no_gc.
@cython.no_gc
cdef class Clerk:
    cdef kvf_clerk clerk
    cdef Ledger ledger

    def __cinit__(self, Ledger ledger not None, uintptr_t bell):
        self.ledger = ledger
        kvf_clerk_init(&self.clerk, &ledger.ledger, bell_at(bell))

    def __dealloc__(self):
        kvf_clerk_free(&self.clerk)

    def __enter__(self):
        lock(&self.clerk.lock)
        return self

    def __exit__(self, *unused):
        if not kvf_lock_mine(&self.clerk.lock):
            raise RuntimeError("another thread holds the lock")
        kvf_clerk_drop(&self.clerk)

    @property
    def answered(self):
        return self.clerk.answered

    def seat(self, uint64_t user, uintptr_t address, uint64_t length):
        cdef kvf_desk *desk = desk_at(address, length)
        with self:
            if kvf_clerk_seat_of(&self.clerk, user) != NULL:
                raise ValueError(f"user {user} has a seat")
            if not kvf_clerk_seat(&self.clerk, user, desk):
                raise MemoryError

    def unseat(self, uint64_t user):
        with self:
            return kvf_clerk_unseat(&self.clerk, user)

    def serve(self, deadline_ns=None):
        cdef uint64_t deadline = deadline_of(deadline_ns), until
        cdef bint over
        while True:
            until = until_signals(deadline)
            with nogil:
                over = kvf_clerk_serve(&self.clerk, until)
            if over:
                return self.owing()
            if kvf_now() >= deadline:
                return []
            PyErr_CheckSignals()

    def tell(self):
        with self:
            self.clerk.news = True

    def news(self, deadline_ns=None):
        cdef uint64_t deadline = deadline_of(deadline_ns), until
        cdef bint some
        while True:
            until = until_signals(deadline)
            with nogil:
                some = kvf_clerk_await(&self.clerk, until)
            if some or kvf_now() >= deadline:
                return some
            PyErr_CheckSignals()

    cdef list owing(self):
        cdef kvf_owing found[OWING_AT_ONCE]
        cdef size_t n, i
        with self:
            n = kvf_clerk_owing(&self.clerk, found, OWING_AT_ONCE)
        return [(found[i].user, found[i].tray) for i in range(n)]

    def wake(self):
        kvf_clerk_wake(&self.clerk)

    def records(self, uint64_t user, uint64_t tray):
        cdef kvf_commit found[KVF_TRAY_RECORDS]
        cdef size_t n
        with self:
            n = kvf_clerk_records(&self.clerk, user, tray, found)
        return columns_of(found, n)

    def answer(self, uint64_t user, uint64_t tray, const uint8_t[::1] answers not None):
        cdef size_t n = answers.shape[0]
        cdef kvf_payment payment
        with self:
            payment = kvf_clerk_settle(&self.clerk, user, tray, &answers[0], n)
        if payment == KVF_NOT_SO_MANY:
            raise ValueError("an answer for each record that is owed one")
        return payment == KVF_PAID

    def commit(self, uint64_t user, attempts, digests, lengths, attrs=None, parents=None,
               expires=None):
        with self:
            return self.ledger.commit(user, attempts, digests, lengths, attrs, parents, expires)
