"""``python -m mooncake.http_metadata_server``: the metadata service of a few machines.

GET, PUT and DELETE of /metadata?key=. Anybody who reaches the port may ask, so it listens on
loopback unless told otherwise.
"""

from __future__ import annotations

import argparse
import logging

from .metadata_keys import VALUE_MAX, Keys
from .metadata_keys import Answer as Kept
from .running import until_ended
from .web import Answer, Asked, Server, serving

__all__ = ["MetadataServer", "main"]

logger = logging.getLogger("mooncake.metadata")

PATH = "/metadata"
METHODS = {"GET", "PUT", "DELETE"}
AT_ONCE = 128  # connections


class MetadataServer(Server):
    """Listens when it is made, answers in `serve_forever`. Port 0: a free one."""

    def __init__(self, host: str, port: int) -> None:
        self.keys = Keys()
        super().__init__(host, port, self._answer, body=VALUE_MAX, at_once=AT_ONCE)

    def _answer(self, asked: Asked) -> Answer:
        return Answer(*self._kept(asked))

    def _kept(self, asked: Asked) -> Kept:
        if asked.method not in METHODS:
            return Kept(405, b"GET, PUT or DELETE")
        if asked.path != PATH:
            return Kept(404, b"there is only /metadata")
        return self.keys.answer(asked.method, asked.query.get("key", ""), asked.body)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="mooncake_http_metadata_server", description="Keeps where engines listen."
    )
    parser.add_argument("--host", default="127.0.0.1", help="to listen on (default: loopback)")
    parser.add_argument("--port", type=int, default=8080, help="to listen on (default: 8080)")
    levels = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
    parser.add_argument("--log-level", default="INFO", choices=levels)
    asked = parser.parse_args(arguments)
    logging.basicConfig(level=asked.log_level, format="%(asctime)s %(message)s")
    try:
        server = MetadataServer(asked.host, asked.port)
    except OSError as error:
        parser.exit(1, f"{parser.prog}: {asked.host}:{asked.port}: {error.strerror}\n")
    with until_ended() as wait, serving(server):
        logger.info("listening on %s:%d", *server.server_address[:2])
        wait()


if __name__ == "__main__":
    main()
