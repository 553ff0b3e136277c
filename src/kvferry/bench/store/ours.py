"""Our own store, as the node or as a user of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import kvferry as kf

from ...store import Answer
from ..target import host_options
from ..verify import Words
from .messages import Open, Opened
from .subject import Key, Slots, Subject, views
from .tasks import Op

__all__ = ["Ours"]

POOL = "store.pool"


class Ours(Subject):
    def __init__(self, wanted: Open, side: Words) -> None:
        house = wanted.house
        assert house is not None
        options = replace(host_options(house.token), node_socket=None)
        self._side = side
        if house.address is None:
            self._store = kf.Store(
                options=options, size=wanted.pool, objects=house.objects, listen=house.listen
            )
        else:
            self._store = kf.Store(house.address, options=options, path=house.path)

    @property
    def opened(self) -> Opened:
        engine = self._store.engine
        pool = engine.regions.get(POOL)
        where = None if pool is None else (pool.address, pool.length)
        return Opened(list(engine.addresses), where)

    def call(self, op: Op, keys: list[Key], slots: Slots, block: int) -> Callable[[], Any]:
        return _CALLS[op](self._store, keys, views(self._side, slots, block))

    def good(self, op: Op, result: Any) -> int:
        return _GOOD[op](result)

    def remove(self, keys: list[Key]) -> None:
        self._store.remove_batch(keys)

    def close(self) -> None:
        self._store.close()


Buffers = list[memoryview]

_CALLS: dict[Op, Callable[[kf.Store, list[Key], Buffers], Callable[[], Any]]] = {
    Op.GET: lambda store, keys, outs: partial(store.get_into, keys[0], outs[0]),
    Op.GET_BATCH: lambda store, keys, outs: partial(store.get_batch_into, keys, outs),
    Op.VIEW: lambda store, keys, outs: partial(_view, store, keys[0]),
    Op.LOOK: lambda store, keys, outs: partial(_look, store, keys[0], outs[0]),
    Op.EXISTS_BATCH: lambda store, keys, outs: partial(store.exists_batch, keys),
    Op.PUT: lambda store, keys, outs: partial(store.put, keys[0], outs[0]),
    Op.PUT_BATCH: lambda store, keys, outs: partial(store.put_batch, keys, outs),
}

_GOOD: dict[Op, Callable[[Any], int]] = {
    Op.GET: lambda length: int(length is not None),
    Op.GET_BATCH: lambda results: int((results.codes == Answer.FOUND).sum()),
    Op.VIEW: int,
    Op.LOOK: int,
    Op.EXISTS_BATCH: lambda there: int(there.sum()),
    Op.PUT: lambda answer: int(answer is Answer.STORED),
    Op.PUT_BATCH: lambda results: int((results.codes == Answer.STORED).sum()),
}


def _view(store: kf.Store, key: Key) -> bool:
    with store.view(key) as block:
        return block is not None


def _look(store: kf.Store, key: Key, out: memoryview) -> bool:
    with store.view(key) as block:
        if block is None:
            return False
        out[:] = block
        return True
