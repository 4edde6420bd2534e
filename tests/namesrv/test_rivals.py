"""Two brokers of one name and id, as a name server sees them."""

from __future__ import annotations

import pytest

from pyromq.namesrv.broker_registration import BrokerRegistration
from pyromq.namesrv.rivals import FORGOTTEN_AFTER, Rivals
from pyromq.protocol.bodies import DataVersion


def slave(address: str) -> BrokerRegistration:
    return BrokerRegistration(
        cluster="C1",
        broker_name="broker-a",
        broker_id=1,
        address=address,
        ha_address="",
        data_version=DataVersion(),
        topics={},
    )


def test_a_broker_that_has_moved_has_no_rival() -> None:
    rivals = Rivals()
    rivals.note(slave("b:1"), "a:1", 0.0)
    assert (rivals.of(slave("a:1"), 0.0), rivals.of(slave("b:1"), 0.0)) == ("", "")


def test_two_that_come_again_and_again_are_rivals_until_one_stops(caplog: pytest.LogCaptureFixture) -> None:
    rivals = Rivals()
    for now in range(0, 100, 10):
        rivals.note(slave("b:1"), "a:1", float(now))
    assert (rivals.of(slave("a:1"), 90.0), rivals.of(slave("b:1"), 90.0)) == ("b:1", "a:1")
    assert [record.getMessage() for record in caplog.records] == [
        "two brokers are name='broker-a' id=1: 'b:1' and 'a:1'; give one of them another brokerName or brokerId"
    ]
    assert rivals.of(slave("a:1"), 91.0 + FORGOTTEN_AFTER) == ""


def test_names_that_peers_make_up_do_not_fill_the_memory() -> None:
    rivals = Rivals()
    for number in range(5_000):
        rivals.note(slave(f"b:{number}"), f"a:{number}", 0.0)
    assert len(rivals._claims) == 1_000
