"""What a master answers over HTTP. Paths and shapes are those of Mooncake's master.

    GET   /health /role /ha_status /leader /metrics /metrics/summary /kv_events/status
          /get_all_segments /get_segments_detail /query_segment /api/v1/segments/status
          /get_all_keys /query_key /batch_query_keys /api/v1/tenant_quotas /api/v1/drain_jobs/query
    POST  /api/v1/remove_all /api/v1/drain_jobs /api/v1/drain_jobs/cancel      with the token
    PUT, DELETE /api/v1/tenant_quotas                                         with the token

Whoever reaches the port may read; who writes holds the token, as `Authorization: Bearer`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from kvferry.errors import Error, UsageError
from kvferry.store.directory import Lead
from kvferry.store.seen import NodeSeen

from ..web import Answer, Asked
from . import replies
from .cluster import DEFAULT_TENANT, Cluster, Place
from .drains import Drains
from .replies import PROMETHEUS, json, refusal, text
from .series import allocated, capacity, series, summary

__all__ = ["Admin"]

logger = logging.getLogger("mooncake.admin")

READS = {"GET"}
WRITES = {"POST", "PUT", "DELETE"}
GIB = 1 << 30
STATUSES = {"UNDEFINED": 0, "OK": 1, "DRAINING": 2, "DRAINED": 3}
TRUE = {"true", "1"}
MOST_KEYS = 4096  # of one batch_query_keys


class Admin:
    """Answers requests, of several threads at once.

    lead    whether this master leads; None: it is the only one
    token   of who may write
    requests  that the directory answered, by kind
    """

    def __init__(
        self,
        cluster: Cluster,
        drains: Drains,
        token: bytes,
        lead: Lead | None,
        requests: Callable[[], dict[str, int]],
    ) -> None:
        self.cluster = cluster
        self.drains = drains
        self.requests = requests
        self._token = token
        self._lead = lead

    def answer(self, asked: Asked) -> Answer:
        verb = _ROUTES.get((asked.method, asked.path))
        if verb is None:
            return text("404 Not Found", 404)
        if asked.method in WRITES and not asked.is_by(self._token):
            return refusal(replies.ILLEGAL_CLIENT, "Authorization: Bearer with the token is needed")
        try:
            return verb(self, asked)
        except UsageError as error:
            return refusal(replies.INVALID_PARAMS, str(error))
        except Error as error:
            return refusal(replies.UNAVAILABLE_IN_CURRENT_STATUS, str(error))
        except Exception:
            logger.exception("%s %s", asked.method, asked.path)
            return refusal(replies.INTERNAL)

    # ---- the master itself ----

    @property
    def role(self) -> str:
        return "leader" if self._lead is None or self._lead.leads else "standby"

    @property
    def state(self) -> str:
        return "serving" if self.role == "leader" else "standby"

    def view(self) -> dict[str, Any]:
        """Who leads, where several could."""
        lead = self._lead
        if lead is None or not lead.leader:
            return {"leader_address": None, "view_version": None}
        return {"leader_address": lead.leader[0], "view_version": lead.term}

    def status_of(self, node: NodeSeen) -> str:
        """Of its segment."""
        drained = self.drains.status_of(node)
        if drained is not None:
            return drained
        standing = node.standing
        leaves = standing is not None and standing.state == "leaving"
        return "DRAINING" if leaves else "OK"


# ---- the master itself ----


def _health(it: Admin, asked: Asked) -> Answer:
    ready = it.role == "leader"
    told = {"status": "ok", "role": it.role, "ha_state": it.state, "service_ready": ready}
    return json({**told, **it.view()})


def _role(it: Admin, asked: Asked) -> Answer:
    return text(it.role)


def _ha_status(it: Admin, asked: Asked) -> Answer:
    return text(it.state)


def _leader(it: Admin, asked: Asked) -> Answer:
    view = it.view()
    return json({"present": view["leader_address"] is not None, **view})


def _metrics(it: Admin, asked: Asked) -> Answer:
    return Answer(200, series(it.cluster.look(), it.requests()).encode(), PROMETHEUS)


def _summary(it: Admin, asked: Asked) -> Answer:
    return text(summary(it.cluster.look(), it.role, it.state))


def _events(it: Admin, asked: Asked) -> Answer:
    """Nothing is published; who wants events follows the directory."""
    counts = ("published_batches", "published_events", "dropped_events", "skipped_unparsed_keys")
    return json({"enabled": False, **dict.fromkeys(counts, 0)})


# ---- segments ----


def _all_segments(it: Admin, asked: Asked) -> Answer:
    return text("".join(f"{node.address}\n" for node in it.cluster.look().nodes))


def _segments_detail(it: Admin, asked: Asked) -> Answer:
    segments = [_detail(node, it.status_of(node)) for node in it.cluster.look().nodes]
    return json({"total_segments": len(segments), "segments": segments})


def _detail(node: NodeSeen, status: str) -> dict[str, Any]:
    size, used = capacity(node), allocated(node)
    number = 0 if node.standing is None else node.standing.number
    epoch = node.epoch if node.standing is None else node.standing.epoch
    return {
        "segment_name": node.address,
        "segment_id": f"{epoch}-{number}",
        "client_id": f"{epoch}-0",
        "base_address": "0x0",
        "size_bytes": size,
        "size_human": f"{size / GIB:.4g} GiB",
        "te_endpoint": node.address,
        "protocol": "tcp",
        "status": status,
        "allocator_used_bytes": used,
        "allocator_capacity_bytes": size,
        "allocator_usage_percent": 100 * used / (size or 1),
    }


def _query_segment(it: Admin, asked: Asked) -> Answer:
    node = it.cluster.node(asked.query.get("segment", ""))
    if node is None:
        return text("Failed to query segment", 500)
    used, size = allocated(node), capacity(node)
    return text(f"{node.address}\nUsed(bytes): {used}\nCapacity(bytes) : {size}\n")


def _segment_status(it: Admin, asked: Asked) -> Answer:
    if "segment" not in asked.query:
        return refusal(replies.INVALID_PARAMS, "Missing segment query parameter")
    node = it.cluster.node(asked.query["segment"])
    if node is None:
        return refusal(replies.SEGMENT_NOT_FOUND)
    name = it.status_of(node)
    told = {"success": True, "segment": node.address, "status": STATUSES[name]}
    return json({**told, "status_name": name, "error_code": 0, "error_message": ""})


# ---- keys ----


class _Replica(NamedTuple):
    size: int
    address: int
    endpoint: str

    @classmethod
    def at(cls, place: Place) -> dict[str, Any]:
        return {
            "size_": place.length,
            "buffer_address_": place.offset,
            "protocol_": "tcp",
            "transport_endpoint_": place.address,
        }


def _all_keys(it: Admin, asked: Asked) -> Answer:
    names = dict.fromkeys(name for names in it.cluster.names(_tenant(asked)) for name in names)
    return text("".join(f"{_text(name)}\n" for name in names))


def _query_key(it: Admin, asked: Asked) -> Answer:
    (places,) = it.cluster.places([asked.query.get("key", "")], _tenant(asked))
    if not places:
        return refusal(replies.OBJECT_NOT_FOUND)
    return json({"success": True, "data": [_Replica.at(place) for place in places]})


def _batch_query(it: Admin, asked: Asked) -> Answer:
    keys = [key for key in asked.query.get("keys", "").split(",") if key]
    if not keys:
        error = "No keys provided. Use ?keys=key1,key2,..."
        return json({"success": False, "error": error}, 400)
    if len(keys) > MOST_KEYS:
        return refusal(replies.INVALID_PARAMS, f"{MOST_KEYS} keys at most")
    places = it.cluster.places(list(keys), _tenant(asked))
    return json({"success": True, "data": dict(zip(keys, map(_found, places), strict=True))})


def _found(places: list[Place]) -> dict[str, Any]:
    values = [_Replica.at(place) for place in places] or None
    error = None if values else "OBJECT_NOT_FOUND"
    others = dict.fromkeys(("disk_values", "local_disk_values", "nof_values"))
    return {"ok": values is not None, "error": error, "values": values, **others}


def _remove_all(it: Admin, asked: Asked) -> Answer:
    force = asked.query.get("force", "").lower() in TRUE
    removed = it.cluster.remove_all(force, _tenant(asked))
    logger.info("%d objects removed", removed)
    return json({"success": True, "removed_count": removed})


def _tenant(asked: Asked) -> str:
    return asked.query.get("tenant_id", DEFAULT_TENANT)


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


# ---- tenants, drains ----


def _quotas(it: Admin, asked: Asked) -> Answer:
    """There are none: a tenant is a namespace, and may fill what it shares with others."""
    return refusal(replies.UNAVAILABLE_IN_CURRENT_MODE)


def _drain(it: Admin, asked: Asked) -> Answer:
    return it.drains.create(asked.body)


def _drain_query(it: Admin, asked: Asked) -> Answer:
    return it.drains.query(asked.query.get("job_id", ""))


def _drain_cancel(it: Admin, asked: Asked) -> Answer:
    return it.drains.cancel(asked.query.get("job_id", ""))


_ROUTES: dict[tuple[str, str], Callable[[Admin, Asked], Answer]] = {
    ("GET", "/health"): _health,
    ("GET", "/role"): _role,
    ("GET", "/ha_status"): _ha_status,
    ("GET", "/leader"): _leader,
    ("GET", "/metrics"): _metrics,
    ("GET", "/metrics/summary"): _summary,
    ("GET", "/kv_events/status"): _events,
    ("GET", "/get_all_segments"): _all_segments,
    ("GET", "/get_segments_detail"): _segments_detail,
    ("GET", "/query_segment"): _query_segment,
    ("GET", "/api/v1/segments/status"): _segment_status,
    ("GET", "/get_all_keys"): _all_keys,
    ("GET", "/query_key"): _query_key,
    ("GET", "/batch_query_keys"): _batch_query,
    ("GET", "/api/v1/tenant_quotas"): _quotas,
    ("PUT", "/api/v1/tenant_quotas"): _quotas,
    ("DELETE", "/api/v1/tenant_quotas"): _quotas,
    ("GET", "/api/v1/drain_jobs/query"): _drain_query,
    ("POST", "/api/v1/drain_jobs"): _drain,
    ("POST", "/api/v1/drain_jobs/cancel"): _drain_cancel,
    ("POST", "/api/v1/remove_all"): _remove_all,
}
