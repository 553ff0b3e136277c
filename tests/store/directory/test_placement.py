"""Where else: by free bytes, other domains first, newcomers little by little."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvferry import _core
from kvferry.store.directory.membership import Member, Spans, State
from kvferry.store.directory.messages import Where
from kvferry.store.directory.placement import Candidates, choose

SPANS = Spans(ramp=100)
NOW = 1000
KEYS = 4000


def member(number: int, domain: str = "", free: int = 500, since: int = 0, **more: int) -> Member:
    where = Where(number * 7919, f"10.0.0.{number}:1")
    capacity = more.get("capacity", 1000)
    return Member(
        number, where.epoch, 1, where, domain or f"d{number}", capacity, free, 9, since, NOW
    )


def digests(count: int = KEYS) -> NDArray[np.uint64]:
    return np.random.default_rng(1).integers(0, 1 << 63, (count, 2)).astype(np.uint64)


def chosen(
    members: list[Member], taken: list[int], copies: int, size: int = 1
) -> NDArray[np.uint16]:
    there = Candidates.of(members, SPANS, NOW)
    row = np.array(taken + [0] * (4 - len(taken)), np.uint16)
    names = digests()
    many = np.full(len(names), copies)
    return choose(
        names, np.full(len(names), size, np.uint64), np.tile(row, (len(names), 1)), many, there
    )


def shares(found: NDArray[np.uint16]) -> dict[int, float]:
    numbers, counts = np.unique(found[:, 0], return_counts=True)
    return dict(zip(numbers.tolist(), (counts / KEYS).tolist(), strict=True))


def test_by_free_bytes() -> None:
    got = shares(chosen([member(1, free=100), member(2, free=300), member(3)], [3], 1))
    assert set(got) == {1, 2}
    assert abs(got[2] - 0.75) < 0.03


def test_a_full_pool_still_makes_some_room() -> None:
    got = shares(chosen([member(1, free=0), member(2, free=1000)], [], 1))
    assert 0.03 < got[1] < 0.09


def test_each_once_and_not_where_it_is() -> None:
    members = [member(number) for number in range(1, 7)]
    found = chosen(members, [2, 5], 3)
    assert set(found[:, :3].ravel().tolist()) == {1, 3, 4, 6}
    assert all(len(set(row[:3].tolist())) == 3 for row in found)
    assert (found[:, 3] == 0).all()


def test_other_domains_first() -> None:
    members = [member(1, "x"), member(2, "x", free=1000), member(3, "y", free=1), member(4, "y")]
    found = chosen(members, [1], 2)
    assert set(found[:, 0].tolist()) == {3, 4}
    assert set(found[:, 1].tolist()) == {2, 3, 4}  # there is no third domain
    members.append(member(5, "z", free=1))
    found = chosen(members, [1], 2)
    assert all((row[0] == 5) != (row[1] == 5) for row in found)


def test_fewer_where_there_are_no_more() -> None:
    assert (chosen([member(1)], [1], 2) == 0).all()
    assert (chosen([], [1], 2) == 0).all()
    found = chosen([member(1), member(2)], [1], 3)
    assert (found == [2, 0, 0, 0]).all()


def test_nothing_to_suspects_nor_to_who_leaves_nor_more_than_fits() -> None:
    members = [member(number) for number in (1, 2, 3, 4)]
    members[0].state, members[1].state = State.SUSPECT, State.LEAVING
    assert set(chosen(members, [], 1)[:, 0].tolist()) == {3, 4}
    members[2].capacity = 100
    assert set(chosen(members, [], 1, size=101)[:, 0].tolist()) == {4}


def test_newcomers_little_by_little() -> None:
    part = [
        shares(chosen([member(1, since=NOW - age), member(2)], [], 1))[1]
        for age in (0, 25, 50, 100)
    ]
    for share, weight in zip(part, (0.05, 0.25, 0.5, 1.0), strict=True):
        assert abs(share - weight / (1 + weight)) < 0.03


def test_whoever_asks_is_told_the_same() -> None:
    members = [member(number) for number in range(1, 9)]
    first = chosen(members, [1], 2)
    assert (first == chosen(members[::-1], [1], 2)).all()
    fewer = chosen(members[:-1], [1], 2)
    kept = (first[:, :2] != 8).all(1)
    assert (fewer[kept] == first[kept]).all()  # only what the missing one had goes elsewhere
    assert first.shape[1] == _core.PLACES
