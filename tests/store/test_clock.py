"""The clock that leases and expiry are counted on."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvferry.store.clock import FOREVER, in_time, moments, now

NS = st.integers(0, 1 << 61)


@settings(max_examples=60, deadline=None)
@given(asked=NS, took=st.integers(0, 1 << 40), lease=st.integers(0, 1 << 40))
def test_in_time_means_surely(asked: int, took: int, lease: int) -> None:
    """Also on a clock that goes a thousandth slower than the holder's."""
    surely = in_time(asked, asked + took, lease)
    assert not (surely and took >= lease)
    assert surely or took >= lease * 0.998
    assert not in_time(asked, asked, 0)


@settings(max_examples=60, deadline=None)
@given(ttls=st.lists(st.integers(0, (1 << 63) - 1), max_size=10))
def test_moments_are_later_or_never(ttls: list[int]) -> None:
    before = now()
    told = moments(np.array(ttls, np.int64))
    after = now()
    assert told is not None
    for ttl, moment in zip(ttls, told.tolist(), strict=True):
        if ttl == 0:
            assert moment == 0
        else:
            assert before < moment <= FOREVER
            assert moment == FOREVER or before + ttl <= moment <= after + ttl
    assert moments(None) is None
