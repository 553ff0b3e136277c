"""A local endpoint: owns memory, listens, connects, answers."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property, partial
from itertools import chain
from typing import Any

from .. import _core, config, log
from ..address import Address, TcpAddress
from ..address import parse as parse_address
from ..errors import ClosedError, Error, ForkedError
from ..link import CmaDriver, Driver, Facts, LoopbackDriver, TcpDriver
from ..memory import Audience, Region, Visitor
from ..path import LinkKind, Path
from ..rpc import Poller, token
from ..runtime import Access, HostRuntime, Place
from ..stats import Stats
from .awaiting import Bells
from .caller import Caller
from .channel import Channel
from .channels import Channels
from .connect import Identity, tls_of
from .deadline import deadline_after
from .drain import drain
from .front import Front
from .heartbeat import Heartbeats
from .identity import facts_of, new_epoch
from .liveness import Limits
from .mailbox import Mailbox, Notification
from .memory_runtime import device_memory, fabric_driver, memory_runtime
from .options import choose
from .pulse import Pulse
from .regions import MemoryUse, OwnRegions, Whose
from .services import Handler, Services
from .statistics import Flow, StatsLog, flows, statistics
from .tenants import Keyring, Tenant, Tenants, check_links

__all__ = ["Engine", "Notification"]

logger = log.get("kvferry.engine")


class Engine:
    """A local endpoint, until it is closed: by `close`, at the end of a `with` block, or when the
    interpreter ends. Thread-safe.

    addresses  where to listen: "host:port" (port 0: a free one), "kv://host:port" or
               "unix:///path". None: this engine only connects.
    options    see config.Options; by default from the environment
    tenants    whom it serves beside those who hold its own token, by name. Regions and services are
               of one tenant each, and for others' peers are not there; the kernel's way between
               processes (cma), which knows no tenants, is not offered then

    Raises UsageError for an address that cannot be parsed or is in use or for unfit files of TLS,
    and RightsError when the token file or the key cannot be trusted. Nothing is listened on then.
    """

    def __init__(
        self,
        *addresses: str,
        options: config.Options | None = None,
        tenants: Mapping[str, Tenant] | None = None,
    ) -> None:
        self.options = options or config.from_environment()
        self._tenants = Tenants(tenants or {})
        if self._tenants:
            check_links(self.options)
        wanted = [parse_address(address, listening=True) for address in addresses]
        opts = self.options
        limits = Limits(opts.beat, opts.suspect_after, opts.dead_after).check()
        self.epoch = new_epoch()  # names this life of the engine; never 0
        self._over: Error | None = None
        self._closing = threading.RLock()
        self._services = Services()
        self._mailbox = Mailbox(self.options.notifications)
        self._copies = _core.CopyEngines(self.options.copy_engines)
        self._bells = Bells()
        self._runtime = HostRuntime(self._copies)
        name = f"{self.epoch:016x}"[:8]
        self._tls = tls_of(opts, name)
        with ExitStack() as failed:
            self._lent = failed.enter_context(ExitStack())
            self._memory = self._lent.enter_context(memory_runtime(opts, self._runtime))
            self._drivers: dict[LinkKind, Driver] = {}
            self._own = OwnRegions(self._memory, self._drivers)
            self._devices = device_memory(self._memory)
            self._tcp = TcpDriver(self._own.spans, self._devices)
            self._drivers |= {driver.kind: driver for driver in self._make_drivers()}
            self._poller = Poller(name)
            failed.callback(self._poller.close)
            self._heartbeats = Heartbeats(limits, name)
            failed.pop_all()
        self._channels = Channels(
            self.options,
            self._poller,
            self._runtime,
            self._drivers,
            self._copies,
            self._bells,
            self._own.spans,
            self._heartbeats,
        )
        self._front = Front(
            self, self._poller, self._own, self._tcp, self._heartbeats, self._mailbox
        )
        self._stats_log = StatsLog(self._channels.live, self.options.stats_every)
        _open.add(self)
        try:
            self._listen(wanted)
        except BaseException:
            self.close()
            raise

    @cached_property
    def facts(self) -> Facts:
        """What peers are told. Not before it listens."""
        return facts_of(self.epoch, self._drivers.values(), self.options.beat)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it listens."""
        return self._front.addresses

    @property
    def name(self) -> str:
        """Its first address; without one, a name made of the epoch."""
        return self.addresses[0] if self.addresses else f"engine-{self.epoch:016x}"

    @property
    def regions(self) -> Mapping[str, Region]:
        """This engine's regions by name."""
        return self._own.table

    @property
    def copy_engines(self) -> _core.CopyEngines:
        """Its copy threads, which count what they have done and used."""
        return self._copies

    @property
    def stats(self) -> dict[str, dict[Path, Stats]]:
        """Sums over finished transfers: by peer, then by path. A channel's go with it."""
        return statistics(self._channels.live())

    @property
    def flows(self) -> list[Flow]:
        """The same, and of reads and writes apart, of channels that moved something."""
        return flows(self._channels.live())

    @property
    def memory(self) -> MemoryUse:
        """What its allocated regions asked for and obtained, all together."""
        return self._own.memory

    # ---- memory ----

    def allocate(
        self,
        name: str,
        size: int,
        *,
        at_least: float = 1.0,
        strict: bool = False,
        place: Place = Place.HOST,
        page: int = 0,
        readonly: bool = False,
        only: int | None = None,
        tenant: str = "",
        rights: Access = Access.WRITE,
    ) -> Region:
        """`size` bytes of zeroed memory that peers can map: an own region, announced to them.

        at_least  the share of `size` that will do, down from all of it in steps of 10 per cent and
                  whole pages; from 1 GiB on in steps of 1 GiB. Below 1, smaller pages will do, too
        strict    no page smaller than `page`, or than the largest that fits the size
        page      bytes of a page; 0 for the best there is
        readonly  peers may only read it
        only      the epoch of the one peer that is told of it; None: all of the tenant's are
        tenant    whose it is; here its name is "tenant/name" then, and to its peers `name`
        rights    with which the one comes that `only` names; it does all that the region lets do

        Blocks while the memory is brought in. What was obtained, and what was tried in vain, stands
        in `region.grant`; the region is as long as that. Raises NoMemory when the machine has not
        got it, UsageError for a name that is taken, a bad size or share, a page that there is not.
        """
        self._check_open()
        whose = self._whose(tenant, only, rights)
        region = self._own.allocate(name, size, place, page, readonly, at_least, strict, whose)
        self._announce(region)
        return region

    def register(self, name: str, buffer: Any, *, tenant: str = "") -> Region:
        """Make a caller's buffer a foreign region: batches may name it by address, and peers reach
        it over links that map nothing (their foreign_path), to write unless it is read-only.

        Memory of a device, a tensor there or a DeviceMemory, becomes an own region: this engine's
        runtime must know it, and may share it although somebody else allocated it.

        The region keeps the buffer alive. The same range under the same name again returns the same
        region and counts. Raises UsageError for a partial overlap, a taken name, memory that is
        empty, not contiguous, backed by a file, or a device's that the runtime does not know;
        Unsupported where its driver cannot say.
        """
        self._check_open()
        region = self._own.register(name, buffer, self._whose(tenant))
        if region.uses == 1:
            self._announce(region)
        return region

    def unregister(self, region: Region) -> None:
        """End a region: no new transfers, wait for those in flight, peers let go, memory is freed.

        Transfers over it may end within the grace for quiet, then they are aborted; at peers the
        same again. Blocks for at most four graces. A peer that stays silent keeps its mapping,
        whose pages are nobody else's; what one reaches over cma is not freed then, and may be
        unregistered again. Raises ClosedError for a region that is not registered,
        NotQuiet when a copy over it does not stop.
        """
        self._check_open()
        if self._own.withdraw(region):
            self._retire(region)

    # ---- peers ----

    def connect(
        self,
        address: str,
        *,
        path: str | Path = "auto",
        timeout: float = 3.0,
        link: str | None = None,
        submitter: str | None = None,
        staging: str | None = None,
        streams: int | None = None,
        inline_below: int | None = None,
        max_transfers_per_batch: int | None = None,
        bounce: str | None = None,
    ) -> Channel:
        """The channel to the engine at `address` over `path`; one per peer, path and options.

        path          a preset's name, "link/submitter/staging", or a Path
        link, submitter, staging
                      force this field of whatever the preset permits
        streams       a transfer under a host path, 1 to 8; default: one a copy engine, or 4 of a
                      device
        inline_below  bytes; smaller batches are copied by their caller under a host path
        max_transfers_per_batch
                      a coprocessor's logical batch, 1 to 1,920
        bounce        the pool that is staged through, "NUM:SIZE_MB"; "0:0": nothing is staged

        Blocks for at most `timeout` seconds. Raises UsageError (address, path, range, or the two
        options that contradict each other), PathRefused with a reason for every path, PeerError
        (not there, another version), RightsError (token), Timeout.
        """
        self._check_open()
        us = Identity(self.name, self.facts, self._token, self._tls)
        options = choose(
            self.options,
            path,
            link=link,
            submitter=submitter,
            staging=staging,
            streams=streams,
            inline_below=inline_below,
            max_transfers_per_batch=max_transfers_per_batch,
            bounce=bounce,
        )
        return self._channels.connect(us, address, options, timeout)

    def serve(
        self,
        service: str,
        handler: Callable[[bytes], bytes],
        *,
        tenant: str | None = "",
        readers: bool = False,
    ) -> None:
        """Answer Channel.call(service, request) of the tenant's peers with handler(request).

        The handler runs in a thread of the engine, several at once, and may block. What it raises
        reaches the caller as PeerError with the text.

        tenant   whose; None: everybody's, told apart by who calls
        readers  also of those whose token permits to read alone; else they get RightsError
        """
        self.serve_callers(
            service, lambda _caller, request: handler(request), tenant=tenant, readers=readers
        )

    def serve_callers(
        self,
        service: str,
        handler: Handler,
        *,
        tenant: str | None = "",
        readers: bool = False,
    ) -> None:
        """As serve, with handler(caller, request)."""
        self._check_open()
        if tenant is not None:
            self._tenants.number(tenant)
        self._services.add(tenant, service, handler, readers)

    @property
    def callers(self) -> frozenset[int]:
        """Epochs of the peers that are connected to this engine, by its own token. One that is
        named no longer has hung up or was hung up on, and nothing that it sent lands any more."""
        return frozenset(each.epoch for each in self._front.callers if not each.tenant)

    def callers_of(self, tenant: str) -> frozenset[tuple[int, Access]]:
        """The same of a tenant, each with the rights that it comes with."""
        number = self._tenants.number(tenant)
        return frozenset(
            (each.epoch, each.rights) for each in self._front.callers if each.tenant == number
        )

    def derive(self, purpose: bytes, tenant: str = "") -> bytes:
        """16 bytes that every engine with the same token derives alike, and nobody else can.
        Raises RightsError as connect does."""
        return token.derive(self._tenants.token(tenant) if tenant else self._token, purpose)

    def notifications(self, timeout: float | None = 0.0) -> list[Notification]:
        """Notifications that have come, oldest first; waits `timeout` seconds for the first one.

        None waits without limit. Raises ClosedError when the engine is closed meanwhile.
        """
        self._check_open()
        if timeout is not None:
            deadline_after(timeout)  # refuses one that is none
        found = self._mailbox.take(timeout)
        if not found:
            self._check_open()  # it was closed meanwhile
        return found

    def close(self) -> None:
        """Close every channel, stop listening, free the memory. Idempotent.

        Memory stays while buffer exports of it are alive. Raises NotQuiet when a copy did not stop
        within the grace, and DeviceError or others for what a device's library did not take back;
        everything else is closed and quiet even then.
        """
        if isinstance(self._over, ForkedError):
            return
        with self._closing:  # one at a time; one that was interrupted is taken up again
            if self not in _open:
                return
            self._over = ClosedError(f"engine {self.name} was closed", cause="closed")
            errors = self._close()
            _open.discard(self)
        if errors:
            raise errors[0]

    def _close(self) -> list[Error]:
        """Close everything; what did not become quiet within the grace, or was not taken back."""
        self._mailbox.close()
        self._stats_log.close()
        self._front.revoke_all(self._own.table.values(), self.options.quiet_grace)
        restless = self._channels.close()
        self._front.close()
        self._poller.close()
        self._heartbeats.close()
        kept = _take_all(driver.close for driver in self._drivers.values())
        if self._tls is not None:
            self._tls.close()
        self._copies.stop()  # from here on every copy is quiet, and memory may go
        for error in self._channels.close():
            logger.error("a channel cannot be closed: %s", error)
        kept += _take_all(chain(self._freeing(), [self._lent.close]))
        self._bells.close()
        return [*restless, *kept]

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Engine {self.name}>"

    # ---- what its front asks for ----

    def answer(self, caller: Caller, service: str, request: bytes) -> bytes:
        return self._services.answer(caller, service, request)

    # ---- inside ----

    def _make_drivers(self) -> Iterator[Driver]:
        yield LoopbackDriver()
        yield fabric_driver(self._memory, self._copies, self.epoch)
        if not self._tenants:
            yield CmaDriver(self.epoch, self.options.ptracer, self._devices)
        yield self._tcp
        if self.options.hixl is not None:
            from ..link.hixl import HixlDriver  # nobody else pays for it

            yield HixlDriver(self.options.hixl, self.options.hixl_options, self._own.table)

    def _listen(self, wanted: list[Address]) -> None:
        if not wanted:
            return
        keyring = Keyring(self._token, self._tenants)  # refused before anybody can connect
        self._front.bind(wanted, Pulse(self._runtime, self.epoch))
        self._tcp.addresses = [
            text for text in self.addresses if isinstance(parse_address(text), TcpAddress)
        ]
        self._front.open(keyring, self._tls)

    @cached_property
    def _token(self) -> bytes:
        return token.load(self.options)

    def _whose(self, tenant: str, only: int | None = None, rights: Access = Access.WRITE) -> Whose:
        number = self._tenants.number(tenant)
        one = None if only is None else Visitor(only, number, rights)
        return Whose(tenant, Audience(number, one))

    def _announce(self, region: Region) -> None:
        self._front.announce(region, self.options.call_timeout)

    def _retire(self, region: Region) -> None:
        text = "the local region was unregistered"
        drain(region.span, self._channels.live(), self.options.quiet_grace, text)
        if self._front.revoke(region, 2 * self.options.quiet_grace):
            self._own.free(region)

    def _freeing(self) -> Iterator[Callable[[], None]]:
        """What gives back the memory of each region that no copy uses."""
        for region in [*self._own.table.values(), *self._own.leaving]:
            region.span.close()
            if not region.span.drain(_core.now()):  # a thread stands still in an inline copy
                logger.error("%r is still used by a copy, and stays as long as the process", region)
                continue
            self._own.table.remove(region)
            yield partial(self._own.free, region)

    # ---- the end ----

    def _check_open(self) -> None:
        if self._over is not None:
            raise self._over.again()

    def forked(self) -> None:
        """In a forked child: every call raises ForkedError; inherited descriptors are closed."""
        if self._over is None:
            self._over = ForkedError(f"engine {self.name} belongs to the parent", cause="forked")
        self._channels.forked()
        self._front.forked()
        self._poller.abandon()
        self._heartbeats.forked()
        if self._tls is not None:
            self._tls.forked()
        for driver in self._drivers.values():
            driver.forked()
        self._own.forked()
        self._bells.forked()


def _take_all(steps: Iterable[Callable[[], None]]) -> list[Error]:
    """Take every step; what they raised."""
    errors = []
    for step in steps:
        try:
            step()
        except Error as error:
            errors.append(error)
    return errors


# Engines of this process until they are closed: native threads copy for them, and a forked child
# has copies of them that must not act.
_open: set[Engine] = set()


def _forked() -> None:
    inherited = list(_open)
    _open.clear()  # a child of this child inherits none of it
    for engine in inherited:
        try:
            engine.forked()
        except Exception:
            logger.exception("closing what %r left to a forked child failed", engine)


def _close_all() -> None:
    """At the end of the interpreter: no copy may outlive the objects it copies between."""
    for engine in list(_open):
        try:
            engine.close()
        except Exception:
            logger.exception("closing %r at exit failed", engine)


os.register_at_fork(after_in_child=_forked)
atexit.register(_close_all)
