"""The loopback link keeps the contract."""

from __future__ import annotations

from kvferry.batch import buffer_of
from kvferry.link import Driver, Facts, LoopbackDriver
from kvferry.memory import Region
from kvferry.path import SubmitterKind
from kvferry.testing.link_contract import Bench, LinkContract


class TestLoopback(LinkContract):
    submitters = (SubmitterKind.INLINE,)

    @staticmethod
    def make_driver(_bench: Bench) -> Driver:
        return LoopbackDriver()


def test_only_with_itself() -> None:
    us = Facts(epoch=1, boot="a", network=1, links={"loopback": {}})
    them = Facts(epoch=2, boot="a", network=1, links={"loopback": {}})
    assert LoopbackDriver.refuse(us, us) is None
    assert LoopbackDriver.refuse(us, them) == "the peer is another engine"


def test_foreign_memory_is_reached_as_it_may_be() -> None:
    for memory, readonly in ((bytearray(8), False), (bytes(8), True)):
        region = Region(1, "foreign", buffer_of(memory), 8)
        published = LoopbackDriver().publish(region, Facts(1, "", 0, {}))
        assert published is not None
        assert (published.fds, published.record.readonly) == ([], readonly)
