"""Names of the store's module that mean nothing without hardware, or nothing on a host alone."""

from __future__ import annotations

from typing import NoReturn

from .absent import refuse

__all__ = [
    "EngramStore",
    "EngramStoreConfig",
    "MooncakeDistributedNoFRegister",
    "get_alloc_func_addr",
    "get_free_func_addr",
]

TABLES = "tables of embeddings (put their rows as values)"


class EngramStoreConfig:
    """Tables of embeddings."""

    def __init__(self) -> None:
        refuse("EngramStoreConfig", TABLES)


class EngramStore:
    """Tables of embeddings."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        refuse("EngramStore", TABLES)


class MooncakeDistributedNoFRegister:
    """Disks that are reached over a fabric."""

    def __init__(self) -> None:
        refuse("MooncakeDistributedNoFRegister", "NVMe over fabrics")


def get_alloc_func_addr() -> NoReturn:
    refuse("get_alloc_func_addr", "an allocator of device memory")


def get_free_func_addr() -> NoReturn:
    refuse("get_free_func_addr", "an allocator of device memory")
