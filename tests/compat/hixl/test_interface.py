"""Names, numbers, types, and what is returned: HIXL's interface as programs see it."""

from __future__ import annotations

import inspect

import hixl
import pytest

from .conftest import Start, free_address

CODES = {
    "SUCCESS": 0,
    "PARAM_INVALID": 103900,
    "TIMEOUT": 103901,
    "NOT_CONNECTED": 103902,
    "ALREADY_CONNECTED": 103903,
    "NOTIFY_FAILED": 103904,
    "UNSUPPORTED": 103905,
    "RESOURCE_EXHAUSTED": 203900,
    "FAILED": 503900,
    "MEM_DEVICE": 0,
    "MEM_HOST": 1,
    "READ": 0,
    "WRITE": 1,
    "NOT_CONNECT": 0,
    "CONNECT_PENDING": 1,
    "CONNECTING": 2,
    "CONNECTED": 3,
    "CONNECT_FAILED": 4,
    "DISCONNECT_PENDING": 5,
    "DISCONNECTING": 6,
    "AUTO_CONNECT": 0,
    "CLIENT_SERVER_COMM": 1,
    "FEATURE_NOT_SUPPORTED": 0,
    "FEATURE_SUPPORTED": 1,
    "OPTION_ENABLE_USE_FABRIC_MEM": "EnableUseFabricMem",
    "OPTION_RDMA_TRAFFIC_CLASS": "RdmaTrafficClass",
    "OPTION_RDMA_SERVICE_LEVEL": "RdmaServiceLevel",
    "OPTION_BUFFER_POOL": "BufferPool",
    "OPTION_GLOBAL_RESOURCE_CONFIG": "GlobalResourceConfig",
    "OPTION_AUTO_CONNECT": "AutoConnect",
    "OPTION_LOCAL_COMM_RES": "LocalCommRes",
}
ENUMS = {
    hixl.MemType: ["MEM_DEVICE", "MEM_HOST"],
    hixl.TransferOp: ["READ", "WRITE"],
    hixl.TransferStatus: ["WAITING", "COMPLETED", "TIMEOUT", "FAILED"],
    hixl.AsyncConnectStatus: [
        "NOT_CONNECT",
        "CONNECT_PENDING",
        "CONNECTING",
        "CONNECTED",
        "CONNECT_FAILED",
        "DISCONNECT_PENDING",
        "DISCONNECTING",
    ],
    hixl.FeatureType: ["AUTO_CONNECT", "CLIENT_SERVER_COMM"],
}
DESC = hixl.MemDesc(4096, 4096)
OP = hixl.TransferOpDesc(4096, 4096, 4096)
NOTIFY = hixl.NotifyDesc("name", "text")

# method -> arguments, what it returns when the engine is not initialized
CALLS = {
    "register_mem": ((DESC, hixl.MEM_HOST), (hixl.FAILED, 0)),
    "deregister_mem": ((1,), hixl.FAILED),
    "malloc_mem": ((hixl.MEM_HOST, 4096), (hixl.FAILED, 0)),
    "free_mem": ((4096,), hixl.FAILED),
    "connect": (("127.0.0.1:1",), hixl.FAILED),
    "disconnect": (("127.0.0.1:1",), hixl.FAILED),
    "connect_async": (("127.0.0.1:1",), hixl.FAILED),
    "disconnect_async": (("127.0.0.1:1",), hixl.FAILED),
    "get_async_connect_status": (("127.0.0.1:1",), (hixl.FAILED, hixl.NOT_CONNECT)),
    "get_all_async_connect_status": ((), (hixl.FAILED, {})),
    "transfer_sync": (("127.0.0.1:1", hixl.READ, [OP]), hixl.FAILED),
    "transfer_async": (("127.0.0.1:1", hixl.READ, [OP]), (hixl.FAILED, 0)),
    "get_transfer_status": ((1,), (hixl.FAILED, hixl.TransferStatus.FAILED)),
    "get_all_transfer_status": ((), (hixl.FAILED, [])),
    "send_notify": (("127.0.0.1:1", NOTIFY), hixl.FAILED),
    "get_notifies": ((), (hixl.FAILED, [])),
}


def test_every_constant_has_its_value() -> None:
    assert {name: getattr(hixl, name) for name in CODES} == CODES
    assert set(CODES) <= set(hixl.__all__)
    for kind, names in ENUMS.items():
        assert [(each.name, int(each)) for each in kind] == [
            (name, number) for number, name in enumerate(names)
        ]


def test_without_an_engine_calls_fail_and_raise_nothing(start: Start) -> None:
    over = start()
    assert over.finalize() is None
    over.finalize()
    for engine in (hixl.Hixl(), over):
        for name, (arguments, returned) in CALLS.items():
            assert getattr(engine, name)(*arguments) == returned, name


def test_no_method_is_missing_and_none_is_more() -> None:
    methods = {name for name, _ in inspect.getmembers(hixl.Hixl, inspect.isfunction)}
    public = {name for name in methods if not name.startswith("_")}
    assert public == {"initialize", "finalize", *CALLS}


def test_initialize_again_is_ignored(start: Start) -> None:
    engine = start()
    assert engine.initialize("nonsense:nonsense", {"no": "option"}) == hixl.SUCCESS


@pytest.mark.parametrize("name", ["127.0.0.1", "127.0.0.1:0", "127.0.0.1:-1", "[::1]", "[::1]:0"])
def test_without_a_port_it_listens_nowhere(name: str, start: Start) -> None:
    assert start(name)._session.engine.addresses == ()


@pytest.mark.parametrize(
    "name",
    ["", ":1", "127.0.0.1:", "a:b:c", "[::1", "127.0.0.1:70000", "x y", "127.0.0.1:" + "9" * 5000],
)
def test_a_name_that_is_none_is_refused(name: str) -> None:
    assert hixl.Hixl().initialize(name) == hixl.PARAM_INVALID


def test_a_port_in_use_fails(start: Start) -> None:
    name = free_address()
    start(name)
    assert hixl.Hixl().initialize(name) == hixl.FAILED


def test_capabilities() -> None:
    for feature in hixl.FeatureType:
        assert hixl.get_capability(feature) == (hixl.SUCCESS, hixl.FEATURE_SUPPORTED)


WRONG = [
    ("initialize", (b"127.0.0.1",)),
    ("initialize", ("127.0.0.1", {"BufferPool": 4})),
    ("initialize", ("127.0.0.1", {4: "4:8"})),
    ("register_mem", ((4096, 4096), hixl.MEM_HOST)),
    ("register_mem", (DESC, 1)),
    ("deregister_mem", ("1",)),
    ("deregister_mem", (-1,)),
    ("connect", (1,)),
    ("connect", ("127.0.0.1:1", 1.5)),
    ("connect", ("127.0.0.1:1", 1 << 31)),
    ("transfer_sync", ("127.0.0.1:1", 0, [OP])),
    ("transfer_sync", ("127.0.0.1:1", hixl.READ, [(1, 2, 3)])),
    ("transfer_sync", ("127.0.0.1:1", hixl.READ, OP)),
    ("transfer_async", ("127.0.0.1:1", hixl.READ, [OP], 7)),
    ("get_transfer_status", (None,)),
    ("get_all_transfer_status", (7,)),
    ("send_notify", ("127.0.0.1:1", "text")),
    ("malloc_mem", (hixl.MEM_HOST, -1)),
]


def test_a_wrong_type_is_a_type_error() -> None:
    for name, arguments in WRONG:
        with pytest.raises(TypeError):
            getattr(hixl.Hixl(), name)(*arguments)


def test_fields_check_what_they_are_set_to() -> None:
    with pytest.raises(TypeError):
        hixl.MemDesc(-1, 2)
    with pytest.raises(TypeError):
        hixl.TransferOpDesc(1, 2, 1 << 64)
    with pytest.raises(TypeError):
        hixl.NotifyDesc("name", b"text")
    desc = hixl.MemDesc(addr=1, len=2)
    desc.len = 1 << 63
    assert (desc.addr, desc.len) == (1, 1 << 63)
    with pytest.raises(TypeError):
        desc.addr = 1.5
    with pytest.raises(AttributeError):
        desc.length = 1
    assert repr(desc) == f"MemDesc(addr=1, len={1 << 63})"


def test_defaults_of_the_values() -> None:
    args = hixl.TransferArgs()
    args.user_data = 7
    wanted = hixl.GetTransferStatusArgs()
    result = hixl.TransferResult()
    assert (wanted.max_query_count, wanted.skip_waiting) == (0xFFFFFFFF, False)
    assert (result.req, result.user_data, result.status) == (0, 0, hixl.TransferStatus.WAITING)
    with pytest.raises(AttributeError):
        result.status = hixl.TransferStatus.FAILED
    with pytest.raises(TypeError):
        hixl.GetTransferStatusArgs(max_query_count=1 << 32)


def test_no_call_takes_no_time(start: Start) -> None:
    engine = start()
    remote = "127.0.0.1:1"
    for call in (
        engine.connect,
        engine.disconnect,
        engine.connect_async,
        engine.disconnect_async,
        lambda where, wait: engine.transfer_sync(where, hixl.READ, [OP], wait),
        lambda where, wait: engine.send_notify(where, NOTIFY, wait),
    ):
        assert call(remote, 0) == call(remote, -1) == hixl.PARAM_INVALID
