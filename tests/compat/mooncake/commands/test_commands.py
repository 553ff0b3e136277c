"""A master and clients as processes: what HTTP tells of what a store really has."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

import kvferry as kf
from kvferry.config import Options, from_environment
from kvferry.testing.faults.party import until

from .started import TOKEN, Master, Started, ask, client, free_ports

MIB = 1 << 20


class Scene(NamedTuple):
    """A master that was killed and began again, two clients by their segments, and users there."""

    master: Master
    clients: dict[str, Started]
    first: kf.Store
    second: kf.Store

    @property
    def at(self) -> str:
        """Of the first one, which has a disk and HTTP."""
        return next(iter(self.clients))


def options() -> Options:
    return replace(from_environment(), token=TOKEN.encode(), node_socket=None)


def user(at: str, **more: Any) -> kf.Store:
    return kf.Store(f"kv://{at}", options=options(), **more)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    rpc, admin, metadata, *ports = free_ports(5)
    words = (
        *(rpc, admin, "--client_ttl=3", "--eviction_high_watermark_ratio=0.8", "-v=1", "stray"),
        *("--enable_http_metadata_server", f"--http_metadata_server_port={metadata}"),
    )
    killed = Master(*words)
    disk = client(
        *(killed, ports[0], "--enable_offload", "--enable_http_server", "--http_port=0", "-v=1"),
        MOONCAKE_OFFLOAD_FILE_STORAGE_PATH=str(tmp_path_factory.mktemp("disk")),
        MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES=str(1 << 30),
    )
    names = [f"127.0.0.1:{port}" for port in ports]
    clients = dict(zip(names, (disk, client(killed, ports[1], "-v=1")), strict=True))
    with user(names[0]) as first, user(names[1]) as second:
        second.put("kept", b"k" * 500)
        first.put("first", b"1")  # with which its threads begin
        until(lambda: set(killed.get("/get_all_keys").split()) == {"kept", "first"}, "the keys")
        killed.end(signal.SIGKILL)
        made = Scene(Master(*words), clients, first, second)
        until(lambda: set(segments(made.master)) == set(names), "both segments are known")
        until(lambda: known(made, {"kept", "first"}), "the keys are known again")
        first.remove("first")
        yield made
    for each in clients.values():
        _end(each, signal.SIGINT, "--v has no effect")
    _end(made.master, signal.SIGTERM, "'stray' belongs to no flag")


def _end(started: Started, number: signal.Signals, told: str) -> None:
    status, out, log = started.end(number)
    assert (status, out) == (0, ""), log
    assert "Traceback" not in log
    assert told in log


def segments(master: Master) -> list[str]:
    return master.get("/get_all_segments").split()


def test_what_is_said_when_ready(scene: Scene) -> None:
    said = f"mooncake_master: at kv://{scene.master.address}, admin at {scene.master.url}, "
    assert scene.master.line.startswith(said)
    assert scene.master.line.endswith(", token from KVFERRY_TOKEN\n")
    said = f"mooncake_client: 32.00 MB at kv://{scene.at}, master kv://{scene.master.address}, "
    assert scene.clients[scene.at].line.startswith(said)


def test_what_clients_are_told(scene: Scene) -> None:
    from mooncake import settings

    with kf.Engine(options=options()) as engine:
        told = settings.ask(engine.connect(f"kv://{scene.master.address}"), 10)
        assert (told.lease, told.high, told.low) == (10.0, 0.8, pytest.approx(0.75))
        assert settings.ask(engine.connect(f"kv://{scene.at}"), 10) == settings.Settings()


def test_what_is_leased_stays_unless_by_force(scene: Scene) -> None:
    with scene.second.lease(["kept"], 30):
        assert removed(scene.master) == 0
        assert scene.second.get("kept") == b"k" * 500
        assert removed(scene.master, "?force=true") == 1
    assert not scene.second.exists("kept")


def url_behind(what: str, line: str) -> str:
    return line.partition(what)[2].partition(",")[0]


def test_the_metadata_server(scene: Scene) -> None:
    url = url_behind("metadata server at ", scene.master.line)
    assert ask("PUT", f"{url}?key=k", None, b"1")[0] == 200
    assert ask("GET", f"{url}?key=k") == (200, "1")


def test_a_client_with_a_disk_and_http(scene: Scene) -> None:
    name, url = scene.at, url_behind("HTTP at ", scene.clients[scene.at].line)
    assert ask("GET", url + "/health") == (200, '{"status":"healthy","code":0}')
    told = ask("GET", url + "/metrics")[1]
    assert f'segment_total_capacity_bytes{{segment="{name}"}} {32 * MIB}\n' in told
    assert "master_" not in told
    assert ask("GET", url + "/metrics/summary")[1].startswith(f"segment {name}: ")
    assert ask("GET", url + "/x")[0] == 404
    assert figures(scene)["master_total_file_capacity_bytes"] == 1 << 30


def test_the_master_itself(scene: Scene) -> None:
    get = scene.master.get
    health = json.loads(get("/health"))
    assert health == {
        "status": "ok",
        "role": "leader",
        "ha_state": "serving",
        "service_ready": True,
        "leader_address": None,
        "view_version": None,
    }
    assert (get("/role"), get("/ha_status")) == ("leader", "serving")
    nobody = {"present": False, "leader_address": None, "view_version": None}
    assert json.loads(get("/leader")) == nobody
    assert not json.loads(get("/kv_events/status"))["enabled"]
    assert ask("GET", scene.master.url + "/nothing") == (404, "404 Not Found")
    assert ask("GET", scene.master.url + "/api/v1/remove_all")[0] == 404
    status, body = ask("GET", scene.master.url + "/api/v1/tenant_quotas")
    assert (status, json.loads(body)["error_code"]) == (409, -1011)


def test_segments(scene: Scene) -> None:
    get = scene.master.get
    detail = json.loads(get("/get_segments_detail"))
    assert detail["total_segments"] == 2
    for each in detail["segments"]:
        name = each["segment_name"]
        assert name in scene.clients
        assert (each["size_bytes"], each["size_human"]) == (32 * MIB, "0.03125 GiB")
        assert each["allocator_capacity_bytes"] == 32 * MIB
        assert (each["te_endpoint"], each["status"]) == (name, "OK")
        told = get(f"/query_segment?segment={name}").splitlines()
        assert told[0] == name
        assert told[2] == f"Capacity(bytes) : {32 * MIB}"
        status = json.loads(get(f"/api/v1/segments/status?segment={name}"))
        assert (status["success"], status["status"], status["status_name"]) == (True, 1, "OK")
    url = scene.master.url
    assert ask("GET", url + "/query_segment?segment=x") == (500, "Failed to query segment")
    status, body = ask("GET", url + "/api/v1/segments/status?segment=x")
    assert (status, json.loads(body)["error_message"]) == (404, "SEGMENT_NOT_FOUND")
    assert ask("GET", url + "/api/v1/segments/status")[0] == 400


def test_keys_and_figures(scene: Scene) -> None:
    get, store = scene.master.get, scene.first
    store.put_batch(["alpha", "b/c d"], [b"a" * 1000, b"b" * 70_000])
    until(lambda: sorted(get("/get_all_keys").splitlines()) == ["alpha", "b/c d"], "the names")
    until(lambda: known(scene, {"alpha", "b/c d"}), "the places")
    (found,) = json.loads(get("/query_key?key=b/c%20d"))["data"]
    assert (found["size_"], found["protocol_"]) == (70_000, "tcp")
    assert found["transport_endpoint_"] in scene.clients
    both = json.loads(get("/batch_query_keys?keys=alpha,nothing"))["data"]
    assert (both["alpha"]["ok"], both["alpha"]["values"][0]["size_"]) == (True, 1000)
    assert (both["nothing"]["ok"], both["nothing"]["error"]) == (False, "OBJECT_NOT_FOUND")
    status, body = ask("GET", scene.master.url + "/query_key?key=nothing")
    assert (status, json.loads(body)["error_code"]) == (404, -704)
    assert ask("GET", scene.master.url + "/batch_query_keys")[0] == 400
    assert store.get("alpha") == b"a" * 1000
    keys = "master_key_count", "mem_cache_nums_"
    until(lambda: [figures(scene)[each] for each in keys] == [2, 2], "both are counted")
    seen = figures(scene)
    assert seen["valid_get_nums_"] >= 1
    assert seen["master_total_capacity_bytes"] == 64 * MIB
    assert seen["master_active_clients"] == 2
    assert seen["master_mount_segment_requests_total"] >= 2
    assert seen["master_ping_requests_total"] > 0
    assert 71_000 <= seen["master_allocated_bytes"] < 2 * MIB
    per = [seen[f'segment_allocated_bytes{{segment="{name}"}}'] for name in scene.clients]
    assert sum(per) == seen["master_allocated_bytes"]
    assert "Keys: 2 | Clients: 2" in get("/metrics/summary")


def figures(scene: Scene) -> dict[str, float]:
    lines = scene.master.get("/metrics").splitlines()
    told = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    kinds = [line for line in lines if line.startswith("# TYPE ")]
    assert len({line.split()[2] for line in kinds}) == len(kinds)
    return {name: float(value) for name, _, value in told}


def test_tenants_see_their_own_keys(scene: Scene) -> None:
    url = scene.master.url
    with user(scene.master.address, namespace="blue") as other:
        other.put("sky", b"x" * 10)
        here = url + "/query_key?key=sky&tenant_id=blue"
        until(lambda: scene.master.get("/get_all_keys?tenant_id=blue") == "sky\n", "its name")
        until(lambda: ask("GET", here)[0] == 200, "its place")
        assert "sky" not in scene.master.get("/get_all_keys")
        assert ask("GET", url + "/query_key?key=sky")[0] == 404
        assert ask("GET", url + "/query_key?key=sky&tenant_id=")[0] == 404
        status, body = ask("POST", url + "/api/v1/remove_all?tenant_id=blue", TOKEN)
        assert (status, json.loads(body)) == (200, {"success": True, "removed_count": 1})
        assert not other.exists("sky")


def test_who_removes_holds_the_token(scene: Scene) -> None:
    url, store = scene.master.url, scene.first
    store.put_batch(["one", "two"], [b"1", b"2"])
    until(lambda: known(scene, {"one", "two"}), "the keys are known")
    for token in (None, "", "another", TOKEN[:-1], TOKEN + "x"):
        status, body = ask("POST", url + "/api/v1/remove_all", token)
        assert (status, json.loads(body)["error_code"]) == (401, -601)
    assert store.exists_batch(["one", "two"]).all()
    status, body = ask("POST", url + "/api/v1/remove_all", TOKEN)
    assert (status, json.loads(body)["success"]) == (200, True)
    assert json.loads(body)["removed_count"] >= 2
    assert not store.exists_batch(["one", "two"]).any()
    assert ask("PUT", url + "/api/v1/tenant_quotas", TOKEN, b"{}")[0] == 409


def test_a_segment_is_drained(scene: Scene) -> None:
    """What it alone has goes to the other one, where it is found."""
    keys = [f"d{number}" for number in range(20)]
    with user(scene.at) as store:
        assert store.put_batch(keys, [key.encode() * 100 for key in keys]).ok
        until(lambda: known(scene, set(keys)), "the keys are known")
        assert all(places(scene, key) == {scene.at} for key in keys)
        job = drained(scene, scene.at)
        assert (job["failed_units"], job["type_name"]) == (0, "DRAIN")
        assert job["succeeded_units"] >= len(keys)
        status = json.loads(scene.master.get(f"/api/v1/segments/status?segment={scene.at}"))
        assert status["status_name"] == "DRAINED"
        assert store.get_batch(keys) == [key.encode() * 100 for key in keys]
    there = set(scene.clients) - {scene.at}
    assert all(places(scene, key) == there for key in keys)


def drained(scene: Scene, name: str) -> Any:
    """The job, when it is done."""
    post = f"{scene.master.url}/api/v1/drain_jobs"
    wanted = json.dumps({"segments": [name]}).encode()
    assert ask("POST", post, None, wanted)[0] == 401
    assert ask("POST", post, TOKEN, b'{"segments":["x"]}')[0] == 404
    for wrong in (b"", b"[]", b'{"segments":[]}'):
        assert ask("POST", post, TOKEN, wrong)[0] == 400
    status, body = ask("POST", post, TOKEN, wanted)
    made = json.loads(body)
    assert (status, made["success"], made["error_code"]) == (200, True, 0)
    query = f"/api/v1/drain_jobs/query?job_id={made['job_id']}"
    job = lambda: json.loads(scene.master.get(query))  # noqa: E731
    until(lambda: job()["status_name"] == "SUCCEEDED", "it is done")
    assert ask("POST", f"{post}/cancel?job_id={made['job_id']}", TOKEN)[0] == 503
    for id, code in (("1-1", 404), ("x", 400), ("", 400)):
        assert ask("GET", f"{post}/query?job_id={id}")[0] == code
        assert ask("POST", f"{post}/cancel?job_id={id}", TOKEN)[0] == code
    return job()


def known(scene: Scene, keys: set[str]) -> bool:
    """By name, and where they are."""
    found = json.loads(scene.master.get(f"/batch_query_keys?keys={quote(','.join(keys))}"))["data"]
    named = set(scene.master.get("/get_all_keys").splitlines())
    return keys <= named and all(each["ok"] for each in found.values())


def places(scene: Scene, key: str) -> set[str]:
    found = json.loads(scene.master.get(f"/query_key?key={key}"))["data"]
    return {each["transport_endpoint_"] for each in found}


def removed(master: Master, how: str = "") -> int:
    return int(
        json.loads(ask("POST", f"{master.url}/api/v1/remove_all{how}", TOKEN)[1])["removed_count"]
    )


HOSTILE = [
    b"",
    b"\r\n\r\n",
    b"\0" * 1000 + b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /health HTTP/9.9\r\n\r\n",
    b"BREW /health HTTP/1.1\r\n\r\n",
    b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 2000 + b"\r\n",
    b"GET /health HTTP/1.1\r\nA: " + b"x" * (1 << 20),
    b"GET /query_key?" + b"key=k&" * 1000 + b" HTTP/1.1\r\n\r\n",
    b"GET /batch_query_keys?keys=" + b"k," * 7000 + b" HTTP/1.1\r\n\r\n",
    b"GET /query_key?key=%ff%00%zz&tenant_id=%ff HTTP/1.1\r\n\r\n",
    b"GET http://[/health HTTP/1.1\r\n\r\n",
    b"GET /api/v1/drain_jobs/query?job_id=" + b"9" * 5000 + b" HTTP/1.1\r\n\r\n",
    b"POST /api/v1/remove_all HTTP/1.1\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
    b"POST /api/v1/remove_all HTTP/1.1\r\nAuthorization: Basic a\r\n\r\n",
    b"POST /api/v1/remove_all HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /api/v1/remove_all HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /api/v1/drain_jobs HTTP/1.1\r\nContent-Length: 1048576\r\n\r\n" + b"x" * (1 << 20),
    b"POST /api/v1/drain_jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
    b"POST /api/v1/drain_jobs HTTP/1.1\r\nContent-Length: 10\r\n\r\nshort",
]


def test_hostile_requests_change_nothing(scene: Scene) -> None:
    before = peak(scene.master)
    port = int(scene.master.url.rpartition(":")[2])
    for request in HOSTILE * 2:
        with socket.create_connection(("127.0.0.1", port), 10) as sock:
            try:
                sock.sendall(request)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(1 << 16):
                    pass
            except OSError:
                continue  # it was hung up on
    assert '"status":"ok"' in scene.master.get("/health")
    assert peak(scene.master) - before < 16 << 10


def peak(started: Started) -> int:
    """KiB of memory at most until now."""
    with open(f"/proc/{started.process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def test_it_listens_on_loopback_alone(scene: Scene) -> None:
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    port = f":{int(scene.master.url.rpartition(':')[2]):04X}"
    listening = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(port)]
    assert listening == [f"0100007F{port}"]
