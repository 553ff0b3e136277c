"""The fabric link keeps the contract, and maps other addresses for the same pages."""

from __future__ import annotations

import pytest

from kvferry.batch import buffer_of
from kvferry.link import Driver, FabricDriver, Facts
from kvferry.memory import Region
from kvferry.runtime import Access, HostRuntime
from kvferry.testing.link_contract import Bench, HandleLinkContract

OFFERED: dict[str, dict[str, int | str]] = {"loopback": {}, "fabric": {}}
OURS = Facts(epoch=1, boot="boot", network=1, links=OFFERED)


class TestFabric(HandleLinkContract):
    @staticmethod
    def make_driver(bench: Bench) -> Driver:
        return FabricDriver(bench.runtime)

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
        (Facts(2, "boot", 1, OFFERED), None),
        (Facts(2, "boot", 1, {"loopback": {}}), "does not offer"),
        (Facts(2, "other", 1, OFFERED), "another host"),
        (Facts(2, "boot", 2, OFFERED), "another network namespace"),
    ],
)
def test_who_can_use_it(theirs: Facts, reason: str | None) -> None:
    refused = FabricDriver.refuse(OURS, theirs)
    assert refused is None if reason is None else refused is not None and reason in refused


def test_foreign_memory_is_not_published() -> None:
    region = Region(1, "foreign", buffer_of(bytearray(8)), 8)
    assert FabricDriver(HostRuntime()).publish(region, Facts(1, "", 0, {})) is None
