"""The little of etcd that an election needs, over the JSON gateway of its v3 API.

Source: etcd 3.4, "API reference" of its gRPC gateway, paths /v3/lease and /v3/kv. Keys and
values travel as base64, 64-bit numbers as text, and zeros not at all.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from ...errors import PeerError, Unsupported, UsageError

if TYPE_CHECKING:
    from http.client import HTTPConnection

__all__ = ["Etcd", "Held"]

MOST = 1 << 16  # bytes of an answer: a key, a value and a header
PORT = 2379

SCHEMES = ("http", "https")
OK = 200

T = TypeVar("T")

Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Held(NamedTuple):
    """What stands at a key.

    revision  of its creation: greater than that of every key made before
    """

    value: bytes
    revision: int


class _Granted(msgspec.Struct):
    ID: Number
    TTL: Number


class _Kept(msgspec.Struct):
    TTL: Number = 0


class _KeptAnswer(msgspec.Struct):
    result: _Kept


class _Pair(msgspec.Struct):
    create_revision: Number
    value: str = ""


class _Range(msgspec.Struct):
    kvs: list[_Pair] = []


class _Header(msgspec.Struct):
    revision: Number


class _Response(msgspec.Struct):
    response_range: _Range | None = None


class _Txn(msgspec.Struct):
    header: _Header
    succeeded: bool = False
    responses: list[_Response] = []


class Etcd:
    """Asks the members of one cluster in turn until one answers. Not thread-safe.

    endpoints  such as "http://10.0.0.1:2379"
    timeout    seconds that one member may take

    Every call blocks, for so long and member at most, and raises PeerError where none answers; what
    was asked may have been done then. The constructor raises UsageError for what is no endpoint,
    and Unsupported for https where OpenSSL does not load.
    """

    def __init__(self, endpoints: Sequence[str], timeout: float) -> None:
        if not endpoints:
            raise UsageError("an etcd cluster has one endpoint at least", cause="bad_address")
        self._members = [_member(endpoint) for endpoint in endpoints]
        for scheme, address in self._members:  # unfit ones are known before anything is asked
            _connection(scheme, address, timeout)
        self._timeout = timeout

    def grant(self, ttl: int) -> tuple[int, int]:
        """A new lease, and the seconds that it lasts: so many, or more if etcd wants it."""
        granted = self._ask("/v3/lease/grant", {"TTL": str(ttl)}, _Granted)
        return granted.ID, granted.TTL

    def keep(self, lease: int) -> bool:
        """The lease lasts as long again; False: it has ended."""
        return self._ask("/v3/lease/keepalive", {"ID": str(lease)}, _KeptAnswer).result.TTL > 0

    def revoke(self, lease: int) -> None:
        """The lease ends, and with it its keys."""
        self._ask("/v3/lease/revoke", {"ID": str(lease)}, msgspec.Raw)

    def claim(self, key: str, value: bytes, lease: int) -> Held:
        """What stands at the key: this value, as long as the lease lasts, if nothing stood there.
        Harmless when repeated."""
        name = _text(key.encode())
        put = {"key": name, "value": _text(value), "lease": str(lease)}
        asked = {
            "compare": [{"key": name, "target": "CREATE", "create_revision": "0"}],
            "success": [{"request_put": put}],
            "failure": [{"request_range": {"key": name}}],
        }
        answer = self._ask("/v3/kv/txn", asked, _Txn)
        if answer.succeeded:
            return Held(value, answer.header.revision)
        for response in answer.responses:
            for pair in response.response_range.kvs if response.response_range else ():
                return Held(b64decode(pair.value), pair.create_revision)
        raise PeerError("etcd refused a key that nobody holds", cause="protocol")

    def _ask(self, path: str, question: dict[str, Any], kind: type[T]) -> T:
        body = msgspec.json.encode(question)
        from http.client import HTTPException

        said = []
        for _ in self._members:
            scheme, address = self._members[0]
            try:
                return self._ask_one(scheme, address, path, body, kind)
            except (OSError, HTTPException, ValueError) as error:
                said.append(f"{address}: {error or type(error).__name__}")
                self._members.append(self._members.pop(0))  # another one from now on
        raise PeerError(f"no etcd answers ({'; '.join(said)})", cause="etcd_unreachable")

    def _ask_one(self, scheme: str, address: str, path: str, body: bytes, kind: type[T]) -> T:
        """Raises ValueError, of which msgspec's errors are, for an answer that is none."""
        connection = _connection(scheme, address, self._timeout)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read(MOST)
        finally:
            connection.close()
        if response.status != OK:
            raise ValueError(f"status {response.status}: {answer[:200].decode(errors='replace')}")
        return msgspec.json.decode(answer, type=kind, strict=False)


def _connection(scheme: str, address: str, timeout: float) -> HTTPConnection:
    """Not made yet. What it takes, OpenSSL among it, is loaded by those alone who ask etcd."""
    from http import client

    if scheme == "http":
        return client.HTTPConnection(address, timeout=timeout)
    try:
        return client.HTTPSConnection(address, timeout=timeout)
    except AttributeError:  # an interpreter that cannot load it leaves the class out
        text = f"https://{address}: this Python has no ssl"
        raise Unsupported(text, cause="no_ssl") from None


def _member(endpoint: str) -> tuple[str, str]:
    """Its scheme and where it listens."""
    parts = urlsplit(endpoint)
    try:
        port = PORT if parts.port is None else parts.port
    except ValueError:
        port = 0
    if parts.scheme not in SCHEMES or not parts.hostname or not port or parts.path.strip("/"):
        raise UsageError(f"{endpoint!r} is not like http://host:2379", cause="bad_address")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return parts.scheme, f"{host}:{port}"


def _text(raw: bytes) -> str:
    return b64encode(raw).decode()
