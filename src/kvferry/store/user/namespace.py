"""What sets the keys of one user apart from those of others at the same node. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ...errors import UsageError
from .. import messages as m
from ..codecs.codec import Codec
from ..codecs.identity import Field, digest_of, packed

__all__ = ["PLAIN", "Namespace"]

PURPOSE = b"kvferry space"
NAMES = b"kvferry names"


class Namespace(NamedTuple):
    """A name, and how values are stored there. Keys of one namespace are not there in another: of
    another name, another codec, or another parameter of it."""

    name: str | None = None
    codec: Codec | None = None

    def secret_of(self, secret: bytes) -> bytes:
        """By which keys are hashed here, where the node's tenant has this secret. Raises
        UsageError (namespace) for a name that is no text."""
        fields = list(self._fields_given())
        return digest_of(fields, len(secret), PURPOSE, key=secret) if fields else secret

    @property
    def space(self) -> bytes:
        """By what a directory tells names of one namespace from those of others."""
        fields = list(self._fields_given())
        return digest_of(fields, 16, NAMES) if fields else b""

    def checked(self) -> Namespace:
        """Itself. Raises UsageError as secret_of does, and (codec) for what is no codec."""
        if not isinstance(self.codec, Codec | None):
            raise UsageError(f"{self.codec!r} is no codec", cause="codec")
        self.secret_of(bytes(16))
        return self

    def joined(self, told: m.Joined) -> m.Joined:
        """What a node told who joined it, as it is for this namespace."""
        if self == PLAIN:
            return told
        return msgspec.structs.replace(told, secret=self.secret_of(told.secret))

    def _fields_given(self) -> Iterator[Field]:
        if self.name is not None:
            try:
                yield "namespace", self.name.encode()
            except (AttributeError, UnicodeEncodeError) as error:
                raise UsageError(f"a namespace is text: {error}", cause="namespace") from None
        if self.codec is not None:
            yield "codec", packed(self.codec.fields)


PLAIN = Namespace()
