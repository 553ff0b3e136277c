"""Which runtime the engines of a test have that says nothing of it, and where their memory lies.

A suite that says so in its environment runs on another runtime, in its own process and in every
child: from_environment reads the variables, and Options made by hand get them for defaults here.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from .. import config
from ..engine import Engine
from ..runtime import Place

__all__ = ["VARIABLES", "adopt", "in_sight", "on_host"]

# What says so -> the option of which it is the default from then on.
OPTIONS = {"KVFERRY_RUNTIME": "runtime", "KVFERRY_ACL_LIBRARY": "acl_library"}

# Where Engine.allocate takes memory from, unless it is told: "host" or "device".
PLACE = "KVFERRY_TEST_PLACE"

VARIABLES = (*OPTIONS, PLACE)


def adopt(environ: Mapping[str, str]) -> None:
    """Make what `environ` says the default of this process."""
    told = {option: environ[name] for name, option in OPTIONS.items() if name in environ}
    if told:
        config.Options.__init__.__defaults__ = tuple({**_defaults(), **told}.values())
    if PLACE in environ:
        defaults = Engine.allocate.__kwdefaults__ or {}
        Engine.allocate.__kwdefaults__ = {**defaults, "place": Place(environ[PLACE])}


def on_host() -> bool:
    """Is it the host's memory that engines share, with the host's own means?"""
    return bool(_defaults()["runtime"] == "host")


def in_sight() -> bool:
    """Is it memory that a processor can load from, which links that copy with one may touch?"""
    defaults = Engine.allocate.__kwdefaults__ or {}
    return bool(defaults["place"] is Place.HOST)


def _defaults() -> dict[str, Any]:
    """Of options, in the order of parameters."""
    parameters = inspect.signature(config.Options).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}
