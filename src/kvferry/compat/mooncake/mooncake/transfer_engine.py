"""TransferEngine: Mooncake's methods and return codes. Each translates, and calls one thing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NoReturn

import msgspec

from kvferry._core import now
from kvferry.errors import ClosedError, Error, UsageError

from . import registered, variables
from .absent import refuse
from .codes import DNS, INVALID_ARGUMENT, OK, SOCKET, code_of, coded, tell
from .flights import Flights
from .inner import InnerTransferEngine
from .inner import start as start_engine
from .moves import Addresses, rows_of
from .transfers import NOTIFY, carry, start
from .values import TransferNotify, TransferOpcode

__all__ = ["TransferEngine"]

logger = logging.getLogger("mooncake")

READ, WRITE = TransferOpcode.Read, TransferOpcode.Write


class TransferEngine:
    """Moves bytes between memory that is registered here and memory that peers registered.

    Methods are thread-safe and return codes: 0 is success, below 0 are failures, whose cause goes
    to the logger `mooncake`; where a number or an address is returned, 0 is the failure. Only
    arguments of a wrong type raise. When the last reference is dropped, to this and to what
    get_engine returned, or the process ends, it closes.
    """

    def __init__(self) -> None:
        self._inner: InnerTransferEngine | None = None
        self._flights = Flights(now)

    # ---- beginning ----

    @coded(INVALID_ARGUMENT)
    def initialize(
        self, local_hostname: str, metadata_server: str, protocol: str, device_name: str, /
    ) -> int:
        """Listen at the host of `local_hostname`, on its port where that is free, else on one of
        MC_MIN_RPC_PORT to MC_MAX_RPC_PORT.

        metadata_server: "P2PHANDSHAKE", where peers are "host:port" with what get_rpc_port tells
        there; or "http://host:port/metadata", where they are what they called themselves.
        protocol, device_name: hints, not followed; the best path to each peer is taken.
        """
        found = variables.read()
        logger.info(
            "kvferry chooses the path to each peer: protocol %r and device %r are hints",
            protocol,
            device_name,
        )
        if found.unused:
            logger.info("these change nothing: %s", ", ".join(found.unused))
        self._inner = start_engine(local_hostname, metadata_server, found)
        return OK

    def initialize_ext(
        self,
        local_hostname: str,
        metadata_server: str,
        protocol: str,
        device_name: str,
        metadata_type: str,
        /,
    ) -> int:
        """As initialize, with the scheme of the metadata server apart ("http", "P2PHANDSHAKE")."""
        plain = "://" in metadata_server or metadata_type == metadata_server
        server = metadata_server if plain else f"{metadata_type}://{metadata_server}"
        return self.initialize(local_hostname, server, protocol, device_name)

    @coded(INVALID_ARGUMENT)
    def get_rpc_port(self) -> int:
        """Where it listens."""
        return self._engine().port

    def get_engine(self) -> InnerTransferEngine:
        """What others may use this engine by. Raises RuntimeError before initialize."""
        try:
            return self._engine()
        except ClosedError as error:
            raise RuntimeError(str(error)) from None

    def get_engine_ptr(self) -> int:
        """A number that names get_engine()."""
        return id(self.get_engine())

    def get_local_topology(self, device_name: str | None = None) -> str:
        """JSON of the network devices that are used by name: none."""
        return "{}"

    # ---- memory ----

    def register_memory(self, buffer_addr: int, capacity: int, location: str = "*") -> int:
        """Let transfers use a range, which the caller keeps mapped until unregister_memory.

        The identical range again counts. -7: overlaps another one; -1: no memory is there, or a
        file that could be cut short. A range that may only be read is only read.
        """
        return self.batch_register_memory([buffer_addr], [capacity], location)

    @coded(INVALID_ARGUMENT)
    def batch_register_memory(
        self, buffer_addresses: Sequence[int], capacities: Sequence[int], location: str = "*"
    ) -> int:
        """Register all of them, or none."""
        inner = self._engine()
        try:
            registered.register_all(inner.engine, inner.spans, buffer_addresses, capacities)
        except Error as error:
            tell("register_memory", error)
            return code_of(error)
        inner.describe()
        return OK

    def unregister_memory(self, buffer_addr: int, /) -> int:
        """End a registration, after transfers over it. -3: there is none."""
        return self.batch_unregister_memory([buffer_addr])

    @coded(INVALID_ARGUMENT)
    def batch_unregister_memory(self, buffer_addresses: Sequence[int], /) -> int:
        """End all of them; the code of the first that could not be ended."""
        inner, codes = self._engine(), []
        for address in buffer_addresses:
            try:
                registered.unregister(inner.engine, inner.spans, address)
            except Error as error:
                tell("unregister_memory", error)
                codes.append(code_of(error))
        inner.describe()
        return codes[0] if codes else OK

    @coded(0)
    def allocate_managed_buffer(self, length: int, /) -> int:
        """The address of memory that peers can map, the caller's until free_managed_buffer."""
        return self._engine().slabs.allocate(length)

    @coded(INVALID_ARGUMENT)
    def free_managed_buffer(self, buffer_addr: int, length: int, /) -> int:
        """-3: it was not allocated, or was freed. Nobody may be using it."""
        try:
            self._engine().slabs.free(buffer_addr)
        except UsageError as error:
            tell("free_managed_buffer", error)
            return code_of(error)
        return OK

    @coded(INVALID_ARGUMENT)
    def write_bytes_to_buffer(self, dest_address: int, src: bytes | str, length: int, /) -> int:
        """Copy the first `length` bytes of `src` to registered or managed memory.

        -1 when there are not so many, or the memory is neither, is read-only or is not mapped.
        """
        data = src.encode() if isinstance(src, str) else src
        if not 0 <= length <= len(data):
            raise UsageError(f"{length} of {len(data)} bytes", cause="out_of_bounds")
        if length == 0:
            return OK
        there = registered.held(self._engine().engine, dest_address, length)
        if there.readonly:
            raise UsageError("it may not be written", cause="read_only")
        there[:] = data[:length]
        return OK

    @coded(b"")
    def read_bytes_from_buffer(self, source_address: int, length: int, /) -> bytes:
        """`length` bytes of registered or managed memory; b"" when it is neither, or not mapped."""
        return bytes(registered.held(self._engine().engine, source_address, length))

    # ---- transfers that block ----

    def transfer_sync_write(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str = "",
    ) -> int:
        """See batch_transfer_sync."""
        return self.transfer_sync(target_hostname, buffer, peer_buffer_address, length, WRITE)

    def transfer_sync_read(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str = "",
    ) -> int:
        """See batch_transfer_sync."""
        return self.transfer_sync(target_hostname, buffer, peer_buffer_address, length, READ)

    def transfer_sync(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        opcode: TransferOpcode,
        notify: TransferNotify | None = None,
        transport_hint: str = "",
    ) -> int:
        """See batch_transfer_sync."""
        return self.batch_transfer_sync(
            target_hostname, [buffer], [peer_buffer_address], [length], opcode, notify
        )

    def batch_transfer_sync_write(
        self,
        target_hostname: str,
        buffers: Addresses,
        peer_buffer_addresses: Addresses,
        lengths: Addresses,
        transport_hint: str = "",
    ) -> int:
        """See batch_transfer_sync."""
        return self.batch_transfer_sync(
            target_hostname, buffers, peer_buffer_addresses, lengths, WRITE
        )

    def batch_transfer_sync_read(
        self,
        target_hostname: str,
        buffers: Addresses,
        peer_buffer_addresses: Addresses,
        lengths: Addresses,
        transport_hint: str = "",
    ) -> int:
        """See batch_transfer_sync."""
        return self.batch_transfer_sync(
            target_hostname, buffers, peer_buffer_addresses, lengths, READ
        )

    @coded(INVALID_ARGUMENT)
    def batch_transfer_sync(
        self,
        target_hostname: str,
        buffers: Addresses,
        peer_buffer_addresses: Addresses,
        lengths: Addresses,
        opcode: TransferOpcode,
        notify: TransferNotify | None = None,
        transport_hint: str = "",
    ) -> int:
        """Move `lengths[i]` bytes between `buffers[i]` and `peer_buffer_addresses[i]` for every i;
        then let the peer get `notify`. -1: something failed, and nothing will be written any more.

        Blocks for MC_TRANSFER_TIMEOUT seconds and a nanosecond for each byte at most, plus the
        grace in which the memory becomes quiet. If that does not come, the log says that the
        buffers must not be reused.
        """
        _check(opcode, TransferOpcode)
        _check(notify, (TransferNotify, type(None)))
        message = None if notify is None else notify.encode()
        parts = rows_of(buffers, peer_buffer_addresses, lengths)
        carry(self._engine(), opcode, target_hostname, parts, message)
        return OK

    # ---- transfers under a number ----

    def transfer_submit_write(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str = "",
    ) -> int:
        """See batch_transfer_async."""
        return self.batch_transfer_async(
            target_hostname, [buffer], [peer_buffer_address], [length], WRITE
        )

    def batch_transfer_async_write(
        self,
        target_hostname: str,
        buffers: Addresses,
        peer_buffer_addresses: Addresses,
        lengths: Addresses,
        transport_hint: str = "",
    ) -> int:
        """See batch_transfer_async."""
        return self.batch_transfer_async(
            target_hostname, buffers, peer_buffer_addresses, lengths, WRITE
        )

    def batch_transfer_async_read(
        self,
        target_hostname: str,
        buffers: Addresses,
        peer_buffer_addresses: Addresses,
        lengths: Addresses,
        transport_hint: str = "",
    ) -> int:
        """See batch_transfer_async."""
        return self.batch_transfer_async(
            target_hostname, buffers, peer_buffer_addresses, lengths, READ
        )

    @coded(0)
    def batch_transfer_async(
        self,
        target_hostname: str,
        buffers: Addresses,
        peer_buffer_addresses: Addresses,
        lengths: Addresses,
        opcode: TransferOpcode,
        transport_hint: str = "",
    ) -> int:
        """Begin, and return the number to ask for; 0: nothing has begun."""
        _check(opcode, TransferOpcode)
        parts = rows_of(buffers, peer_buffer_addresses, lengths)
        return start(self._engine(), self._flights, opcode, target_hostname, parts)

    def transfer_check_status(self, batch_id: int, /) -> int:
        """1: done; 0: under way; -1: failed, or no such number; -2: its time is up.

        Nothing will be written any more, except at 0. At 1 and -1 the number is forgotten.
        """
        return self._flights.check(batch_id)

    def get_batch_transfer_status(self, batch_ids: Sequence[int], /) -> int:
        """Block until all of them are over, and forget them. 0: all were done; else -1."""
        return OK if self._flights.wait(batch_ids) else INVALID_ARGUMENT

    # ---- peers ----

    @coded(0)
    def get_first_buffer_address(self, segment_name: str, /) -> int:
        """Of the memory that the peer has had registered for longest; 0: none, or no peer."""
        return self._engine().peers.first_address(segment_name) or 0

    def get_notifies(self) -> list[TransferNotify]:
        """What peers have sent since the last call, oldest first."""
        try:
            found = self._engine().engine.notifications()
        except ClosedError as error:
            tell("get_notifies", error)
            return []
        return [each for one in found if one.name == NOTIFY for each in _decoded(one.message)]

    def send_probe(self, peer_server_name: str) -> int:
        """0: the peer answers. -101: that is no name of a peer; -102: there is no answer."""
        try:
            self._engine().peers.probe(peer_server_name)
        except Error as error:
            logger.info("probe: %s", str(error))
            return DNS if error.cause == "address" else SOCKET
        return OK

    # ---- what needs hardware ----

    def transfer_write_on_cuda(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("transfer_write_on_cuda", "CUDA streams")

    def transfer_read_on_cuda(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("transfer_read_on_cuda", "CUDA streams")

    def batch_transfer_write_on_cuda(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("batch_transfer_write_on_cuda", "CUDA streams")

    def batch_transfer_read_on_cuda(self, *args: object, **kwargs: object) -> NoReturn:
        refuse("batch_transfer_read_on_cuda", "CUDA streams")

    def warmup_efa_segment(self, segment_name: str, /) -> NoReturn:
        refuse("warmup_efa_segment", "an EFA device")

    def _engine(self) -> InnerTransferEngine:
        if self._inner is None:
            raise ClosedError("initialize was not called, or failed", cause="not_initialized")
        self._inner.check_process()
        return self._inner


def _check(argument: object, wanted: type | tuple[type, ...]) -> None:
    if not isinstance(argument, wanted):
        raise TypeError(f"{argument!r} is no argument for this method")


def _decoded(message: bytes) -> list[TransferNotify]:
    try:
        return [TransferNotify.decode(message)]
    except msgspec.MsgspecError as error:
        logger.warning("a notify that cannot be read was dropped: %s", str(error))
        return []
