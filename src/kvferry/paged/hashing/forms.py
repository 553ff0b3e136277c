"""The forms of hashes: as vLLM has them, and SGLang's pages.

sha256        SHA-256 of a pickle        32 bytes
sha256_cbor   SHA-256 of CBOR            32 bytes
xxhash        XXH3-128 of a pickle       16 bytes; not for tenants that distrust each other
xxhash_cbor   XXH3-128 of CBOR           16 bytes; likewise
pages         SHA-256 of the parent's hash and the tokens as u32, little-endian: SGLang's
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from importlib import import_module
from struct import pack
from typing import Protocol

from ...errors import Unsupported, UsageError
from .cbor import Cbor
from .extras import Extra, Extras
from .pickled import Pickled
from .tokens import Tokens

__all__ = ["FORMS", "Form", "form_of"]

Digest = Callable[[bytes], bytes]

SEED = "vllm-none-hash"  # what vLLM uses with SHA-256 when nobody says another


class Form(Protocol):
    """root    what stands for the parent of a first block
    bodies  the tokens of each block, written down
    extra   the extra keys of a block
    chain   the hashes of blocks, one behind the other: of their tokens and their extra keys
    """

    def root(self, seed: str | None, identity: bytes, extras: Extras) -> bytes: ...
    def bodies(self, tokens: Tokens, block: int) -> list[bytes]: ...
    def extra(self, extras: Extras, start: int, stop: int) -> Extra | None: ...
    def chain(
        self, parent: bytes, bodies: Iterable[bytes], extra: Iterable[Extra | None]
    ) -> list[bytes]: ...


class Chained:
    """A digest of (parent, tokens, extra keys), written by an encoding."""

    def __init__(self, digest: Digest, encoding: Pickled | Cbor, seed: str | None) -> None:
        self._digest = digest
        self._encoding = encoding
        self._seed = seed
        self.bodies = encoding.bodies

    def root(self, seed: str | None, identity: bytes, extras: Extras) -> bytes:
        chosen = self._seed if seed is None else seed
        if chosen is None:
            raise UsageError("xxhash needs a seed that others do not know", cause="seed")
        none = self._digest(self._encoding.text(chosen))
        return self.chain(none, [b""], [(("identity", identity),)])[0] if identity else none

    def extra(self, extras: Extras, start: int, stop: int) -> Extra | None:
        return extras.of(start, stop)

    def chain(
        self, parent: bytes, bodies: Iterable[bytes], extra: Iterable[Extra | None]
    ) -> list[bytes]:
        digest, size, hashes = self._digest, len(parent), []
        around: dict[tuple[int, Extra | None], tuple[bytes, bytes, bytes]] = {}  # most are alike
        for body, keys in zip(bodies, extra, strict=False):
            kind = (len(body), keys)
            if kind not in around:
                around[kind] = self._encoding.around(size, *kind)
            before, between, behind = around[kind]
            parent = digest(b"".join((before, parent, between, body, behind)))
            hashes.append(parent)
        return hashes


class Pages:
    """SGLang's. What a request has beside its tokens is in the root: the adapter as its extra key,
    and the salt."""

    def root(self, seed: str | None, identity: bytes, extras: Extras) -> bytes:
        if seed is not None:
            raise UsageError("pages have no seed", cause="seed")
        if extras.media:
            raise UsageError("pages know nothing of media: give them tokens", cause="extras")
        adapter = extras.adapter and "\0".join(filter(None, extras.adapter))
        named = adapter or extras.salt
        space = _sha256(_namespace(adapter, extras.salt)) if named else b""
        return _sha256(space + b"identity" + identity) if identity else space

    def bodies(self, tokens: Tokens, block: int) -> list[bytes]:
        raw = tokens.astype("<u4").tobytes()
        return [raw[at : at + 4 * block] for at in range(0, len(raw), 4 * block)]

    def extra(self, extras: Extras, start: int, stop: int) -> Extra | None:
        return None

    def chain(
        self, parent: bytes, bodies: Iterable[bytes], extra: Iterable[Extra | None]
    ) -> list[bytes]:
        hashes = []
        for body in bodies:
            parent = _sha256(parent + body)
            hashes.append(parent)
        return hashes


def _namespace(*texts: str | None) -> bytes:
    raws = [text.encode() if text else None for text in texts]
    said = [b"\0" if raw is None else b"\1" + pack("<Q", len(raw)) + raw for raw in raws]
    return b"sglang-cache-namespace-v1" + b"".join(said)


def _sha256(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()


def _xxh3() -> Digest:
    try:
        digest: Digest = import_module("xxhash").xxh3_128_digest
    except (ImportError, AttributeError):
        raise Unsupported("xxhash is not installed", cause="no_xxhash") from None
    return digest


FORMS: dict[str, Callable[[], Form]] = {
    "sha256": lambda: Chained(_sha256, Pickled(), SEED),
    "sha256_cbor": lambda: Chained(_sha256, Cbor(), SEED),
    "xxhash": lambda: Chained(_xxh3(), Pickled(), None),
    "xxhash_cbor": lambda: Chained(_xxh3(), Cbor(), None),
    "pages": Pages,
}


def form_of(name: str) -> Form:
    """Raises UsageError (form), and Unsupported (no_xxhash) where that is not installed."""
    if name not in FORMS:
        raise UsageError(f"no form of hashes {name!r}, but {', '.join(FORMS)}", cause="form")
    return FORMS[name]()
