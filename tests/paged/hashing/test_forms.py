"""Hashes of prefixes, byte for byte those of engines."""

from __future__ import annotations

import hashlib
from struct import pack
from typing import Any

import numpy as np
import pytest

from kvferry.errors import Unsupported, UsageError
from kvferry.paged import Adapter, Extras, Media, PrefixHash
from kvferry.paged.hashing.cbor import written
from kvferry.paged.hashing.forms import form_of
from tests.paged.hashing.vectors import EXTRAS, HASHES, MORE, TOKENS, Hashes


@pytest.mark.parametrize("known", HASHES, ids=lambda known: f"{known.form}-{known.seed}")
def test_hashes_are_those_of_vllm(known: Hashes) -> None:
    if known.form.startswith("xxhash"):
        pytest.importorskip("xxhash")
    form = form_of(known.form)
    none = form.root(known.seed, b"", Extras())
    assert none.hex() == known.none
    (body,) = form.bodies(np.array(TOKENS), len(TOKENS))
    (more,) = form.bodies(np.array(MORE), len(MORE))
    pairs = [form.chain(none, [body, more], [extra, None]) for extra in EXTRAS]
    assert [tuple(map(bytes.hex, pair)) for pair in pairs] == known.blocks
    short = [PrefixHash(n, known.form, seed=known.seed).chain(TOKENS[:n]) for n in (1, 2, 3, 4)]
    assert [hash_.hex() for (hash_,) in short] == known.short


def test_extra_keys_are_those_of_vllm() -> None:
    extras = Extras("s", Adapter("sql", "/a/sql"), (Media("i", 6, 4), Media("j", 11, 9)))
    assert [extras.of(start, start + 4) for start in (0, 4, 8, 12, 16, 20)] == [
        (("lora", "sql", "/a/sql"), ("cache_salt", "s")),
        (("lora", "sql", "/a/sql"), ("mm", "i", 2)),
        (("lora", "sql", "/a/sql"), ("mm", "i", -2), ("mm", "j", 3)),
        (("lora", "sql", "/a/sql"), ("mm", "j", -1)),
        (("lora", "sql", "/a/sql"), ("mm", "j", -5)),
        (("lora", "sql", "/a/sql"),),
    ]
    assert Extras().of(0, 4) is None


def test_pages_are_those_of_sglang() -> None:
    tokens = [5, 70000, 2**31 - 1, 0, 1, 2, 3, 4]
    first = hashlib.sha256(pack("<4I", *tokens[:4])).digest()
    second = hashlib.sha256(first + pack("<4I", *tokens[4:])).digest()
    assert PrefixHash(4, "pages").chain(tokens) == [first, second]
    space = b"sglang-cache-namespace-v1" + b"\1" + pack("<Q", 3) + b"sql" + b"\0"
    root = hashlib.sha256(space).digest()
    page = hashlib.sha256(root + pack("<4I", *tokens[:4])).digest()
    extras = Extras(adapter=Adapter("sql"))
    assert PrefixHash(4, "pages").chain(tokens[:4], extras) == [page]
    assert PrefixHash(4, "pages").chain(tokens[:4], Extras("sql")) != [page]


CBOR: list[tuple[Any, str]] = [  # RFC 8949, appendix A
    (0, "00"),
    (23, "17"),
    (24, "1818"),
    (100, "1864"),
    (1000, "1903e8"),
    (1000000, "1a000f4240"),
    (-1, "20"),
    (-10, "29"),
    (-100, "3863"),
    (-1000, "3903e7"),
    (b"", "40"),
    (b"\1\2\3\4", "4401020304"),
    ("", "60"),
    ("IETF", "6449455446"),
    ("\u00fc", "62c3bc"),
    ("\u6c34", "63e6b0b4"),
    ((), "80"),
    ((1, (2, 3), (4, 5)), "8301820203820405"),
]


def test_cbor_is_that_of_the_standard() -> None:
    assert [(thing, written(thing).hex()) for thing, _ in CBOR] == CBOR


@pytest.mark.parametrize("form", ["sha256", "sha256_cbor", "pages"])
def test_a_chain_goes_on_where_it_ended(form: str) -> None:
    hashing = PrefixHash(4, form, identity=b"model")
    tokens = list(range(22))
    whole = hashing.chain(tokens)
    assert len(whole) == 5
    assert whole[:2] + hashing.chain(tokens[8:], before=whole[:2]) == whole
    assert hashing.chain(tokens[:3]) == []
    part = hashing.partial(tokens[20:], before=whole)
    assert part not in whole
    assert part != hashing.partial(tokens[20:21], before=whole)


def test_whatever_kv_depends_on_changes_the_hash() -> None:
    tokens, other = list(range(8)), [9, *range(1, 8)]
    image = Media("i", 1, 2)
    chains = [
        PrefixHash(4).chain(tokens),
        PrefixHash(4).chain(other),  # the second block is equal
        PrefixHash(4, seed="0").chain(tokens),
        PrefixHash(4, identity=b"a").chain(tokens),
        PrefixHash(4, identity=b"b").chain(tokens),
        PrefixHash(4).chain(tokens, Extras("salt")),
        PrefixHash(4).chain(tokens, Extras("salt 2")),
        PrefixHash(4).chain(tokens, Extras(adapter=Adapter("sql", "/a"))),
        PrefixHash(4).chain(tokens, Extras(adapter=Adapter("sql", "/b"))),
        PrefixHash(4).chain(tokens, Extras(media=(image,))),
        PrefixHash(4).chain(tokens, Extras(media=(image._replace(identifier="j"),))),
        PrefixHash(4).chain(tokens, Extras(media=(image._replace(offset=0),))),
        PrefixHash(4, "sha256_cbor").chain(tokens),
        PrefixHash(4, "pages").chain(tokens),
        PrefixHash(4, "pages", identity=b"a").chain(tokens),
        PrefixHash(4, "pages").chain(tokens, Extras(adapter=Adapter("a", "b"))),
        PrefixHash(4, "pages").chain(tokens, Extras(adapter=Adapter("ab"))),
    ]
    hashes = [hash_ for chain in chains for hash_ in chain]
    assert len(set(hashes)) == len(hashes) == 2 * len(chains)


@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        (lambda: PrefixHash(0), "block_tokens"),
        (lambda: PrefixHash(1 << 20), "block_tokens"),
        (lambda: PrefixHash(4, "md5"), "form"),
        (lambda: PrefixHash(4, "pages", seed="0"), "seed"),
        (
            lambda: PrefixHash(4, "pages").chain([1] * 4, Extras(media=(Media("i", 0, 1),))),
            "extras",
        ),
        (lambda: PrefixHash(4).chain([1, -1, 2, 3]), "tokens"),
        (lambda: PrefixHash(4).chain([1, 2**31, 2, 3]), "tokens"),
        (lambda: PrefixHash(4).chain([1, 10**30, 2, 3]), "tokens"),
        (lambda: PrefixHash(4).chain([1.5, 1, 2, 3]), "tokens"),  # type: ignore[list-item]
        (lambda: PrefixHash(4).chain([[1], [2, 3]]), "tokens"),  # type: ignore[list-item]
        (lambda: PrefixHash(4).chain(np.ones((2, 4), np.int64)), "tokens"),
        (lambda: PrefixHash(4).partial([1, 2, 3, 4]), "tokens"),
        (lambda: PrefixHash(4).partial([]), "tokens"),
        (lambda: Extras(3), "extras"),  # type: ignore[arg-type]
        (lambda: Extras("\ud800"), "extras"),
        (lambda: Extras(media=(Media("i", -1, 2),)), "extras"),
        (lambda: Extras(media=(Media("i", 4, 3), Media("j", 6, 1))), "extras"),
        (lambda: PrefixHash(4).chain([1] * 4, Extras("s" * (1 << 16))), "extras"),
    ],
)
def test_refuses(wrong: Any, cause: str) -> None:
    with pytest.raises(UsageError) as caught:
        wrong()
    assert caught.value.cause == cause


def test_xxhash_needs_a_seed_and_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xxhash")
    with pytest.raises(UsageError, match="seed"):
        PrefixHash(4, "xxhash")
    monkeypatch.setitem(__import__("sys").modules, "xxhash", None)
    with pytest.raises(Unsupported, match="not installed"):
        PrefixHash(4, "xxhash", seed="0")
