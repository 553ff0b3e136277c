"""``mooncake_master``: a directory of kvferry, and what it knows over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from kvferry import config
from kvferry.engine import Engine
from kvferry.rpc import token
from kvferry.store.directory import Alone, Lead, Service
from kvferry.store.directory.election import Election

from ..http_metadata_server import MetadataServer
from ..running import until_ended
from ..settings import serve
from ..web import Server, serving
from .admin import Admin
from .cluster import Cluster
from .command import listening, run, token_from
from .drains import Drains
from .flags import Flags
from .logging_flags import tell_idle
from .master_flags import MASTER
from .wanted import Wanted, wanted

__all__ = ["main"]

NAME = "mooncake_master"
BODY = 64 << 10  # bytes of a request
AT_ONCE = 32  # connections

logger = logging.getLogger("mooncake.master")


def main(words: Sequence[str] | None = None) -> None:
    run(NAME, MASTER, words, _work)


def _work(flags: Flags) -> None:
    tell_idle(logger, MASTER, flags)
    options = config.from_environment()
    with until_ended() as wait, _running(wanted(flags), options) as where:
        print(f"{NAME}: {where}", flush=True)  # noqa: T201  whoever started it waits for this
        wait()
    logger.info("ended")


@contextmanager
def _running(what: Wanted, options: config.Options) -> Iterator[str]:
    """The directory, and what answers HTTP beside it: where all of them are."""
    with ExitStack() as stack:
        engine = stack.enter_context(Engine(what.listen, options=options))
        lead = _lead(what, engine)
        service = Service(engine, lead, spans=what.spans, names=True)
        stack.enter_context(closing(service))
        serve(engine, what.settings)
        cluster = stack.enter_context(closing(Cluster(what.reached, options)))
        drains = stack.enter_context(closing(Drains(cluster)))
        several = lead if what.etcd else None
        admin = Admin(cluster, drains, token.load(options), several, service.requests)
        answering = partial(Server, answer=admin.answer, body=BODY, at_once=AT_ONCE)
        url = stack.enter_context(serving(listening(answering, *what.admin))).url
        parts = [f"at kv://{what.listen}", f"admin at {url}"]
        if what.metadata is not None:
            url = stack.enter_context(serving(listening(MetadataServer, *what.metadata))).url
            parts.append(f"metadata server at {url}/metadata")
        yield ", ".join((*parts, f"token from {token_from(options)}"))


def _lead(what: Wanted, engine: Engine) -> Lead:
    if not what.etcd:
        return Alone(engine.addresses)
    return Election(what.etcd, what.cluster, engine.addresses)


if __name__ == "__main__":
    main()
