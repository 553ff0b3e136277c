"""The loopback link keeps the contract."""

from __future__ import annotations

from kvferry.batch import buffer_of
from kvferry.link import Driver, Facts, LoopbackDriver
from kvferry.memory import Region
from kvferry.runtime import Runtime
from kvferry.testing.link_contract import LinkContract


def make_driver(_runtime: Runtime) -> Driver:
    return LoopbackDriver()


class TestLoopback(LinkContract):
    make_driver = staticmethod(make_driver)


def test_only_with_itself() -> None:
    us = Facts(epoch=1, boot="a", network="n", links=("loopback",))
    them = Facts(epoch=2, boot="a", network="n", links=("loopback",))
    assert LoopbackDriver.refuse(us, us) is None
    assert LoopbackDriver.refuse(us, them) == "the peer is another engine"


def test_foreign_memory_is_reached_as_it_may_be() -> None:
    for memory, readonly in ((bytearray(8), False), (bytes(8), True)):
        region = Region(1, "foreign", buffer_of(memory), 8)
        published = LoopbackDriver().publish(region)
        assert published is not None
        assert (published.fds, published.record.readonly) == ([], readonly)
