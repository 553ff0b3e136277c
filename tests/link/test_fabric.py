"""The fabric link keeps the contract, and maps other addresses for the same pages."""

from __future__ import annotations

import pytest

from kvferry.batch import buffer_of
from kvferry.link import FabricDriver, Facts
from kvferry.memory import Region
from kvferry.runtime import Access, HostRuntime
from kvferry.testing.link_contract import Bench, HandleLinkContract

OURS = Facts(epoch=1, boot="boot", network="net", links=("loopback", "fabric"))


class TestFabric(HandleLinkContract):
    make_driver = FabricDriver

    def test_the_mapping_is_elsewhere_and_goes_with_detach(self, bench: Bench) -> None:
        remote = bench.link.attach(bench.publish(bench.region(4096)))
        assert remote.mapping is not None
        assert remote.span.here == remote.mapping.address != remote.address
        bench.link.detach(remote)
        assert remote.mapping.closed

    def test_read_only_memory_is_mapped_read_only(self, bench: Bench) -> None:
        remote = bench.attach(bench.region(4096, Access.READ))
        assert remote.mapping is not None
        with memoryview(remote.mapping.view) as view:
            assert view.readonly


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        (Facts(2, "boot", "net", ("fabric",)), None),
        (Facts(2, "boot", "net", ("loopback",)), "does not offer"),
        (Facts(2, "other", "net", ("fabric",)), "another host"),
        (Facts(2, "boot", "other", ("fabric",)), "another network namespace"),
    ],
)
def test_who_can_use_it(theirs: Facts, reason: str | None) -> None:
    refused = FabricDriver.refuse(OURS, theirs)
    assert refused is None if reason is None else refused is not None and reason in refused


def test_foreign_memory_is_not_published() -> None:
    region = Region(1, "foreign", buffer_of(bytearray(8)), 8)
    assert FabricDriver(HostRuntime()).publish(region) is None
