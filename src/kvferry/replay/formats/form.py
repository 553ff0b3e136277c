"""The face of every format: lines to requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..lines import BadLine
from ..trace import Call

__all__ = ["Format", "Identity", "Moment", "Read", "Tokens", "checked", "decoded"]

MOST_TOKENS = 1 << 26  # of one request

Tokens = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
Moment = Annotated[float, msgspec.Meta(ge=0)]
Identity = Annotated[int, msgspec.Meta(ge=0)]

T = TypeVar("T")


class Read(NamedTuple):
    """The requests of a line, and of how many tokens their blocks are; 0: it names none."""

    calls: list[Call]
    block_tokens: int


@dataclass(frozen=True)
class Format:
    """block_tokens  of a block, where its lines do not say; 0: there are no blocks
    fits    does a first line look like it?
    read    (line, its number, tokens of a block) -> Read; raises BadLine
    header  is this line one that names columns?
    """

    name: str
    block_tokens: int
    fits: Callable[[bytes], bool]
    read: Callable[[bytes, int, int], Read]
    header: Callable[[bytes], bool] = lambda line: False


def decoded(decoder: msgspec.json.Decoder[T], line: bytes) -> T:
    try:
        return decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise BadLine(str(error)) from None
    except UnicodeDecodeError:
        raise BadLine("not UTF-8") from None


def checked(ids: Sequence[int], tokens: int, block_tokens: int) -> NDArray[np.uint64]:
    """The ids of a prompt's blocks, the last one maybe of fewer tokens. Raises BadLine unless they
    are as many as its tokens make."""
    expected = -(-tokens // block_tokens)
    if len(ids) != expected:
        raise BadLine(
            f"{len(ids)} blocks for {tokens} tokens: of {block_tokens} tokens they are {expected}"
        )
    try:
        return np.array(ids, np.uint64)
    except OverflowError:
        raise BadLine("an id of more than 64 bits") from None
