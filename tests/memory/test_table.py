"""The table of regions against a plain list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvferry import _core
from kvferry.errors import UsageError
from kvferry.memory import RegionTable


class Named:
    """A region, as far as a table looks at it."""

    def __init__(self, name: str, base: int, length: int) -> None:
        self.name = name
        self.span = _core.Span(base, length, base, True)

    def meets(self, base: int, length: int) -> bool:
        return self.span.base < base + length and base < self.span.base + self.span.length


NAMES = st.sampled_from("abcdefgh")
BASES = st.integers(0, 300)
LENGTHS = st.integers(1, 60)
STEPS = st.one_of(
    st.tuples(st.just("add"), NAMES, BASES, LENGTHS),
    st.tuples(st.just("remove"), NAMES, BASES, LENGTHS),
    st.tuples(st.just("look"), NAMES, BASES, LENGTHS),
)


@given(st.lists(STEPS, max_size=40))
def test_like_a_list_of_regions(steps: list[tuple[str, str, int, int]]) -> None:
    table: RegionTable[Named] = RegionTable()
    model: dict[str, Named] = {}
    for verb, name, base, length in steps:
        met = [region for region in model.values() if region.meets(base, length)]
        if verb == "look":
            assert set(table.overlapping(base, length)) == set(met)
        elif verb == "remove":
            if name in model:
                table.remove(model.pop(name))
            table.remove(Named(name, base, length))  # a stranger: nothing happens
        elif name in model or met:
            with pytest.raises(UsageError) as caught:
                table.add(Named(name, base, length))
            assert caught.value.cause == ("name_taken" if name in model else "overlap")
        else:
            model[name] = Named(name, base, length)
            table.add(model[name])
        assert dict(table) == model
        assert len(table) == len(table.spans) == len(model)


def test_overlap_names_both() -> None:
    table: RegionTable[Named] = RegionTable()
    table.add(Named("old", 0x1000, 0x100))
    with pytest.raises(UsageError) as caught:
        table.add(Named("new", 0x10FF, 0x10))
    text = str(caught.value)
    assert "'new'" in text
    assert "'old'" in text
    assert caught.value.range == (0x10FF, 0x10)
    table.add(Named("new", 0x1100, 0x10))
    assert list(table) == ["old", "new"]


def test_a_region_of_a_taken_name_does_not_come_in() -> None:
    table: RegionTable[Named] = RegionTable()
    first, second = Named("kv", 0, 10), Named("kv", 100, 10)
    table.add(first)
    with pytest.raises(UsageError, match="'kv' exists already"):
        table.add(second)
    assert table["kv"] is first
    assert table.spans.overlapping(100, 10) == []
    with pytest.raises(KeyError):
        table["other"]
    assert table.get("other") is None
    assert "kv" in repr(table) or "Named" in repr(table)


def test_removed_twice() -> None:
    table: RegionTable[Named] = RegionTable()
    region = Named("kv", 0, 10)
    table.add(region)
    table.remove(region)
    table.remove(region)
    assert (len(table), len(table.spans)) == (0, 0)
    table.add(region)
    assert table["kv"] is region
