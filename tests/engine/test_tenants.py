"""Tenants of one engine: whose token opens what, and what readers may do."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import itertools
import os
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kvferry as kf
from kvferry import _core
from kvferry.engine.regions import Links
from kvferry.engine.tenants import Badge, Keyring, Tenants
from kvferry.link import CmaDriver, Facts
from kvferry.memory import EVERYBODY, Audience, Visitor
from kvferry.path import LinkKind
from kvferry.rpc import auth
from kvferry.runtime import Access
from kvferry.testing.faults.frames import request
from kvferry.testing.faults.stranger import Stranger
from kvferry.testing.under_test import on_host

from .tenancy import (
    OWN,
    READER,
    SIZE,
    A,
    B,
    Join,
    hands,
    joining,
    options,
    region,
    tenanted,
    untouched,
    wire_of,
)
from .window import window

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

DENIED, UNKNOWN, READONLY = 1, _core.UNKNOWN, _core.READONLY

pytestmark = pytest.mark.skipif(not on_host(), reason="memory files are the host's")


@pytest.fixture
def target() -> Iterator[kf.Engine]:
    with tenanted() as engine:
        yield engine


@pytest.fixture
def join(target: kf.Engine) -> Iterator[Join]:
    with joining(target) as join:
        yield join


# ---- tokens ----


def test_a_token_names_a_tenant_and_its_rights() -> None:
    tenants = Tenants({"a": kf.Tenant(A, READER), "b": kf.Tenant(B)})
    transcript = auth.Transcript(1, "control", 2, 3, b"", b"")
    keyring = Keyring(OWN, tenants)
    for token, badge in (
        (OWN, Badge()),
        (A, Badge("a", 1, Access.WRITE)),
        (READER, Badge("a", 1, Access.READ)),
        (B, Badge("b", 2, Access.WRITE)),
    ):
        proof = auth.proof(token, auth.Role.CLIENT, transcript)
        assert keyring.holder(transcript, proof) == (badge, token)
    assert keyring.holder(transcript, auth.proof(b"x", auth.Role.CLIENT, transcript)) is None
    assert keyring.holder(transcript, auth.proof(A, auth.Role.SERVER, transcript)) is None


@pytest.mark.parametrize(
    "tenants",
    [
        {"": kf.Tenant(A)},
        {"a/b": kf.Tenant(A)},
        {"x" * 65: kf.Tenant(A)},
        {"a": kf.Tenant(b"")},
        {"a": kf.Tenant(A, b"")},
        {"a": kf.Tenant(A, A)},
        {"a": kf.Tenant(A), "b": kf.Tenant(A)},
        {"a": kf.Tenant(A, B), "b": kf.Tenant(B)},
        {"a": (A, None)},
        {"a": kf.Tenant("text")},  # type: ignore[arg-type]
    ],
)
def test_what_is_no_tenant_is_refused(tenants: Any) -> None:
    with pytest.raises(kf.UsageError):
        kf.Engine(options=options(OWN), tenants=tenants)


def test_the_engine_s_own_token_is_no_tenant_s() -> None:
    with pytest.raises(kf.RightsError):
        kf.Engine("127.0.0.1:0", options=options(A), tenants={"a": kf.Tenant(A)})


@pytest.mark.parametrize("more", [{"hixl": "1"}, {"runtime": "cann", "acl_pids": False}])
def test_no_link_leads_around_tenants(more: dict[str, Any]) -> None:
    plain = kf.Options(token_file=kf.config.from_environment().token_file, token=OWN, **more)
    with pytest.raises(kf.UsageError, match="contradict"):
        kf.Engine(options=plain, tenants={"a": kf.Tenant(A)})


# ---- audiences, pure, and the same natively ----

VISITORS = [
    Visitor(epoch, tenant, rights)
    for epoch, tenant, rights in itertools.product((5, 6), (0, 1, 2), Access)
]
AUDIENCES = [Audience(tenant) for tenant in (0, 1, 2)] + [
    Audience(each.tenant, each) for each in VISITORS
]


def test_audiences() -> None:
    read, write = Access.READ, Access.WRITE
    assert EVERYBODY.access(Visitor(1), write) is write
    assert Audience(1).access(Visitor(1), write) is None
    assert Audience(1).access(Visitor(1, 1, read), write) is read
    assert Audience(1).access(Visitor(1, 1, write), read) is read
    reader = Visitor(1, 1, read)
    assert Audience(1, reader).access(reader, write) is write
    assert Audience(1, reader).access(reader._replace(rights=write), write) is None
    assert Audience(1, reader).access(reader._replace(epoch=2), write) is None
    assert Audience(1, reader).access(reader._replace(tenant=0), write) is None


def test_wires_judge_as_audiences_do() -> None:
    memory = np.zeros(len(AUDIENCES) * 8, np.uint8)
    server = _core.WireServer(table_of(memory))
    for number, visitor in enumerate(VISITORS):
        memory[:] = 0
        ours, theirs = pair()
        epoch, tenant, rights = visitor
        assert server.serve(theirs.detach(), number, epoch, tenant, rights is Access.WRITE) == 0
        with Stranger(ours) as wire:
            _judged(wire, visitor, memory)
    server.close()


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return socket.create_connection(listener.getsockname()), listener.accept()[0]


def table_of(memory: Bytes) -> _core.SpanTable:
    """Eight bytes for each audience."""
    table = _core.SpanTable()
    for at, audience in enumerate(AUDIENCES):
        base = memory.ctypes.data + 8 * at
        span = _core.Span(base, 8, base, True, _core.OFFER_WRITE)
        only = audience.only
        span.admit(
            audience.tenant,
            only is not None,
            0 if only is None else only.epoch,
            only is None or only.rights is Access.WRITE,
        )
        table.add(span)
    return table


def _judged(wire: Stranger, visitor: Visitor, memory: Bytes) -> None:
    for at, audience in enumerate(AUDIENCES):
        access = audience.access(visitor, Access.WRITE)
        base = memory.ctypes.data + 8 * at
        wire.send(request(_core.READ, [(base, 8)], run=2 * at + 1))
        assert wire.told()[1:4:2] == ((0, 0) if access else (DENIED, UNKNOWN))
        if access:
            wire.take(8)
        wire.send(request(_core.WRITE, [(base, 8)], run=2 * at + 2) + b"x" * 8)
        wanted = {None: (DENIED, UNKNOWN), Access.READ: (DENIED, READONLY)}
        assert wire.told()[1:4:2] == wanted.get(access, (0, 0))
        assert (memory[8 * at] == ord("x")) == (access is Access.WRITE)


# ---- regions and services ----


@pytest.mark.parametrize("path", ["fabric/host", "tcp/host"])
def test_the_same_name_is_another_region_for_each(target: kf.Engine, join: Join, path: str) -> None:
    for fill, (token, name) in enumerate(((OWN, ""), (A, "a"), (B, "b")), 1):
        peer = join(token, path=path)
        assert set(peer.regions) == ({"kv", "only a's"} if name == "a" else {"kv"})
        into = np.zeros(SIZE, np.uint8)
        peer.read(kf.Batch.of(into, peer.regions["kv"]))
        assert (into == fill).all()
        assert peer.regions["kv"].record.tenant == (name or "default")
        assert peer.call("who", b"") == name.encode()
        for missing in ("a/kv", "b/kv", "only a's" if name != "a" else "only b's"):
            with pytest.raises(KeyError):
                peer.regions[missing]
    assert untouched(target)


def test_services_are_a_tenant_s_and_not_for_readers(target: kf.Engine, join: Join) -> None:
    target.serve("secret", lambda request: b"a's", tenant="a")
    target.serve("shown", lambda request: b"shown", tenant="a", readers=True)
    with pytest.raises(kf.UsageError, match="exists already"):
        target.serve("secret", lambda request: b"", tenant="a")
    with pytest.raises(kf.UsageError, match="no tenant"):
        target.serve("secret", lambda request: b"", tenant="c")
    assert join(A).call("secret", b"") == b"a's"
    for token in (OWN, B):
        texts = []
        for service in ("secret", "there is none"):
            with pytest.raises(kf.UsageError) as error:
                join(token).call(service, b"")
            assert error.value.cause == "no_service"
            texts.append(str(error.value.args[0]).replace(service, ""))
        assert texts[0] == texts[1], "one tells from the answer that there is one"
    reader = join(READER)
    assert reader.call("shown", b"") == b"shown"
    with pytest.raises(kf.RightsError) as refused:
        reader.call("secret", b"")
    assert refused.value.cause == "read_only"


def test_who_calls_is_told_by_the_token(target: kf.Engine, join: Join) -> None:
    heard: list[kf.Caller] = []

    def whose(caller: kf.Caller, request: bytes) -> bytes:
        heard.append(caller)
        return b""

    target.serve_callers("whose", whose, tenant="a", readers=True)
    for token in (A, READER):
        join(token).call("whose", b"")
    assert [(each.tenant, each.rights) for each in heard] == [
        ("a", Access.WRITE),
        ("a", Access.READ),
    ]
    assert target.callers == frozenset()
    assert target.callers_of("a") == {(each.epoch, each.rights) for each in heard}
    assert target.callers_of("b") == frozenset()
    with pytest.raises(kf.UsageError):
        join(B).call("whose", b"")
    assert len(heard) == 2


def test_a_service_of_everybody_tells_them_apart(target: kf.Engine, join: Join) -> None:
    def whose(caller: kf.Caller, request: bytes) -> bytes:
        return caller.tenant.encode()

    target.serve_callers("whose", whose, tenant=None)
    for token, name in ((OWN, b""), (A, b"a"), (B, b"b")):
        assert join(token).call("whose", b"") == name


def test_notifications_are_of_the_engine_s_own_peers(target: kf.Engine, join: Join) -> None:
    for token in (A, READER):
        with pytest.raises(kf.RightsError):
            join(token).notify("news", b"")
    join(OWN).notify("news", b"ours")
    assert [each.message for each in target.notifications(5)] == [b"ours"]


def test_names_are_told_apart(target: kf.Engine) -> None:
    buffer = np.full(4096, 7, np.uint8)
    assert target.register("buffer", buffer, tenant="a").name == "a/buffer"
    assert target.register("buffer", buffer, tenant="a").uses == 2
    with pytest.raises(kf.UsageError, match="exists already"):
        target.allocate("kv", 4096, tenant="b")
    with pytest.raises(kf.UsageError, match="no tenant"):
        target.allocate("kv", 4096, tenant="c")


# ---- readers ----


def test_a_reader_over_tcp(target: kf.Engine, join: Join) -> None:
    peer = join(READER, path="tcp/host")
    far = peer.regions["kv"]
    assert far.readonly
    buffer = np.zeros(SIZE, np.uint8)
    peer.read(kf.Batch.of(buffer, far))
    assert (buffer == 2).all()
    with pytest.raises(kf.RightsError):
        peer.write(kf.Batch.of(buffer, far))
    with hands(target, READER) as holder, wire_of(target, holder, READER) as wire:
        wire.send(request(_core.WRITE, [(far.address, 8)]) + b"x" * 8)
        assert wire.told()[1:4:2] == (DENIED, READONLY)
        wire.send(request(_core.READ, [(far.address, 8)], run=2))
        assert wire.told()[1] == 0
        assert wire.take(8) == b"\2" * 8
    assert untouched(target)


def test_a_reader_maps_to_read(target: kf.Engine, join: Join) -> None:
    """Others write what it sees, and it cannot: not by its mapping, nor by the descriptor."""
    writer, peer = join(A, path="fabric/host"), join(READER, path="fabric/host")
    far = peer.regions["kv"]
    assert far.readonly
    assert far.mapping is not None
    with memoryview(far.mapping.view) as seen:
        assert seen.readonly
        writer.write(kf.Batch.of(np.full(8, 9, np.uint8), writer.regions["kv"], length=8))
        assert seen[:9].tobytes() == b"\x09" * 8 + b"\2"
    with pytest.raises(kf.RightsError):
        peer.write(kf.Batch.of(np.zeros(8, np.uint8), far, length=8))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    assert libc.mprotect(far.mapping.address, 4096, 3) == -1
    assert ctypes.get_errno() == errno.EACCES
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(far.mapping.address)
        with pytest.raises(OSError, match="Input/output error"):
            memory.write(b"x")
    assert window(region(target, "a"))[0] == 9


def test_a_reader_s_descriptor(target: kf.Engine) -> None:
    made = region(target, "a")
    both = Links(LinkKind.FABRIC, None)
    reader = Visitor(1, 1, Access.READ)
    published = target._own.publish(both, made, Facts(1, "", 0, {}), reader)
    assert published is not None
    (fd,) = published.fds
    try:
        assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        for attempt in (
            lambda: os.pwrite(fd, b"x", 0),
            lambda: os.ftruncate(fd, 0),
            lambda: os.posix_fallocate(fd, 0, 4096),
            lambda: fcntl.fcntl(fd, 1033, 1),  # F_ADD_SEALS
        ):
            with pytest.raises(OSError, match=r"Bad file descriptor|not permitted|Invalid"):
                attempt()
        address = _core.vm_reserve(4096, 4096)[1]
        assert _core.vm_map(fd, 0, 4096, address, True) in (errno.EACCES, errno.EPERM)
        assert _core.vm_release(address, 4096) == 0
    finally:
        published.discard()
    writer = target._own.publish(both, made, Facts(1, "", 0, {}), Visitor(1, 1))
    assert writer is not None
    assert fcntl.fcntl(writer.fds[0], fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
    writer.discard()
    assert target._own.publish(both, made, Facts(1, "", 0, {}), Visitor(1, 2)) is None
    assert target._own.publish(both, made, Facts(1, "", 0, {}), Visitor(1)) is None


def test_the_kernel_s_way_is_not_offered(target: kf.Engine, join: Join) -> None:
    for token in (A, OWN):
        with pytest.raises(kf.PathRefused) as refused:
            join(token, path="cma/host")
        assert "does not offer it" in str(refused.value.rejected)


def test_the_kernel_holds_nobody_to_reading(target: kf.Engine) -> None:
    driver, made, facts = CmaDriver(1, ptracer=False), region(target, "a"), Facts(1, "", 0, {})
    assert driver.publish(made, facts) is not None
    assert driver.publish(made, facts, Access.READ) is None
    driver.close()


def test_secrets_differ_by_tenant(target: kf.Engine) -> None:
    drawn = {target.derive(b"purpose", tenant) for tenant in ("", "a", "b")}
    assert len(drawn) == 3
    with kf.Engine(options=options(A)) as holder:
        assert holder.derive(b"purpose") == target.derive(b"purpose", "a")
