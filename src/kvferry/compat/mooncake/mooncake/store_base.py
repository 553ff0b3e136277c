"""From setup to close, and the memory that may be named by address."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from typing import Any

from kvferry.errors import Error

from .inner import InnerTransferEngine
from .store_client import NO_CLIENT, Client, Guest, Member
from .store_codes import FAILURES, Code, code_of, lost
from .store_setup import Setup, of_config, setup_of

__all__ = ["Base"]

logger = logging.getLogger("mooncake")

OK = int(Code.OK)


class Base:
    """One client. Methods are thread-safe and return codes: 0 is success, below 0 are failures,
    whose cause goes to the logger `mooncake`. Only arguments of a wrong type raise."""

    def __init__(self) -> None:
        self._client: Client = NO_CLIENT
        self._changing = threading.Lock()

    def setup(self, *args: Any, **kwargs: Any) -> int:
        """Become a client of a master.

        setup(local_hostname, metadata_server, global_segment_size, local_buffer_size, protocol,
              rdma_devices, master_server_addr, engine=None, enable_ssd_offload=False,
              ssd_offload_path="", tenant_id="default", enable_client_http_server=False,
              client_http_port=9300)
        setup(config)  the same without engine in a dict, whose values may be text

        global_segment_size above 0: this process keeps so many bytes of everybody's objects, at the
        host of local_hostname. engine: what TransferEngine.get_engine returned; what is registered
        there may be used here. enable_ssd_offload: what does not fit goes into a folder of this
        process in ssd_offload_path. tenant_id: keys are those of this tenant alone. The others are
        hints. Blocks. -600: an argument makes no sense; -1: no master, or no memory.
        """
        config = kwargs.get("config", args[0] if args else None)
        if isinstance(config, Mapping):
            if len(args) + len(kwargs) > 1:
                raise TypeError("setup takes one dict, or arguments without one")
            return self._set_up(lambda: of_config(config), None)
        wanted = SIGNATURE.bind(self, *args, **kwargs).arguments
        wanted.pop("self")
        engine = wanted.pop("engine", None)
        if not isinstance(engine, InnerTransferEngine | None):
            raise TypeError(f"engine is what get_engine() returned, not {engine!r}")
        return self._set_up(lambda: setup_of(**wanted), engine)

    def setup_dummy(self, mem_pool_size: int, local_buffer_size: int, server_address: str) -> int:
        """Become a client of the node at "host:port", such as mooncake_client is; -1: nobody is
        there. Both sizes are hints."""
        return self._begin(lambda: Guest(server_address))

    def init_all(self, protocol: str, device_name: str, mount_segment_size: int, /) -> int:
        """-600: see setup."""
        logger.error("init_all: there is setup instead")
        return int(Code.INVALID_PARAMS)

    def close(self) -> int:
        """What this process contributed is gone, and its objects with it. Idempotent."""
        try:
            self._replaced(NO_CLIENT).close()
        except FAILURES as error:
            return code_of("close", error)
        return OK

    def health_check(self) -> int:
        """0: the master answers; 1: setup was not called, or close was; 2: it does not."""
        if self._client is NO_CLIENT:
            return 1
        try:
            self._client.check()
        except FAILURES as error:
            return lost("health_check", error, 2)
        return 0

    def get_hostname(self) -> str:
        """Name of the segment of this process, host:port."""
        return self._client.hostname

    def register_buffer(self, buffer_ptr: int, size: int) -> int:
        """Make a range fast to use by address; the caller keeps it mapped until unregister_buffer.

        -600: it is not mapped to be written, or overlaps another one.
        """
        try:
            self._client.memory.register(buffer_ptr, size)
        except FAILURES as error:
            return code_of("register_buffer", error)
        return OK

    def unregister_buffer(self, buffer_ptr: int) -> int:
        """-600: it was not registered."""
        try:
            self._client.memory.unregister(buffer_ptr)
        except FAILURES as error:
            return code_of("unregister_buffer", error)
        return OK

    def alloc_from_mem_pool(self, size: int, /) -> int:
        """The address of memory, after setup_dummy; 0: there is none."""
        if not isinstance(self._client, Guest):
            return 0
        try:
            return self._client.pool.allocate(size)
        except FAILURES as error:
            return lost("alloc_from_mem_pool", error, 0)

    def get_offload_rpc_read_count(self) -> int:
        """0: what is on a disk is read by its own node."""
        return 0

    # ---- inside ----

    def _window(self, address: int, length: int) -> Any:
        """The bytes there, as a buffer. Raises Error where not all of it is mapped."""
        return self._client.memory.window(address, length)

    def _set_up(self, read: Callable[[], Setup], lent: InnerTransferEngine | None) -> int:
        try:
            setup = read()
        except Error as error:
            return code_of("setup", error)
        logger.info(
            "kvferry chooses the path to each node: metadata server %r, protocol %r, devices %r "
            "and a local buffer of %d bytes are hints",
            setup.metadata_server,
            setup.protocol,
            setup.devices,
            setup.local_buffer_size,
        )
        return self._begin(lambda: Member(setup, lent))

    def _replaced(self, client: Client) -> Client:
        """The one until now, which is to be closed: of several threads each closes another."""
        with self._changing:
            before, self._client = self._client, client
        return before

    def _begin(self, make: Callable[[], Client]) -> int:
        self.close()
        try:
            self._replaced(make()).close()
        except FAILURES as error:
            code_of("setup", error)
            return int(Code.INTERNAL_ERROR)
        return OK


def _signature() -> Signature:
    """Of setup with arguments: as setup_of has them, and an engine."""
    own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    engine = Parameter("engine", Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="object")
    told = list(signature(setup_of).parameters.values())
    return Signature([own, *told[:7], engine, *told[7:]], return_annotation="int")


SIGNATURE = _signature()
Base.setup.__signature__ = SIGNATURE  # type: ignore[attr-defined]
