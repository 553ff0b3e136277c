"""Keys at a metadata service: GET, PUT and DELETE of one URL with ?key=."""

from __future__ import annotations

import http.client
from urllib.parse import quote, urlsplit

from kvferry.errors import Error, PeerError, UsageError

__all__ = ["MetadataClient"]

TIMEOUT = 3.0  # seconds, for each step of a request
ANSWER_MAX = 1 << 20  # bytes

_SCHEMES = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


class MetadataClient:
    """Asks one service, over a connection for each question. Thread-safe; every call blocks.

    Proxies that the environment names are not used. Raises PeerError with the cause "metadata"
    when the service does not answer, or not as expected.
    """

    def __init__(self, url: str) -> None:
        """Raises UsageError for what is no http or https URL."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise _no_url(url) from error
        if parts.scheme not in _SCHEMES or not parts.hostname or port == 0:
            raise _no_url(url)
        self.url = url
        self._connection = _SCHEMES[parts.scheme]
        self._where = (parts.hostname, port)
        self._path = parts.path or "/"

    def get(self, key: str) -> bytes | None:
        """The value; None when there is no such key."""
        status, body = self._ask("GET", key)
        return None if status == 404 else self._expect(200, status, body)

    def put(self, key: str, value: bytes) -> bool:
        """False when the service keeps another value for it."""
        status, body = self._ask("PUT", key, value)
        if status == 400:
            return False
        self._expect(200, status, body)
        return True

    def delete(self, key: str) -> None:
        """Nothing when there is no such key."""
        status, body = self._ask("DELETE", key)
        if status != 404:
            self._expect(200, status, body)

    def _ask(self, method: str, key: str, value: bytes | None = None) -> tuple[int, bytes]:
        connection = self._connection(*self._where, timeout=TIMEOUT)
        try:
            target = f"{self._path}?key={quote(key, safe='')}"
            headers = {} if value is None else {"Content-Type": "application/json"}
            connection.request(method, target, value, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(ANSWER_MAX)
        except (OSError, http.client.HTTPException) as error:
            raise self._failed(str(error) or type(error).__name__) from error
        finally:
            connection.close()

    def _expect(self, wanted: int, status: int, body: bytes) -> bytes:
        if status != wanted:
            raise self._failed(f"status {status}, {body[:100]!r}")
        return body

    def _failed(self, why: str) -> Error:
        return PeerError(f"metadata service: {why}", cause="metadata", peer=self.url)


def _no_url(url: str) -> UsageError:
    return UsageError(f"no URL of a metadata service: {url!r}", cause="metadata")
