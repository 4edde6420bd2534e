"""One group whose members subscribe differently."""

from __future__ import annotations

import logging

import pytest

from pyromq.broker.clients.agreement import MOST_NAMED
from pyromq.broker.server import Broker
from pyromq.protocol.codes import RequestCode
from pyromq.testing import eventually
from tests.broker.conftest import Connect
from tests.broker.helpers import Peer


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "subscribe differently" in record.getMessage()]


async def test_members_that_subscribe_differently_are_named_once_and_again_when_it_changes(
    broker: Broker, peer: Peer, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    other, third = await connect(broker), await connect(broker)
    await peer.beat("c1", "billing", {"orders": "a || b"})
    await other.beat("c2", "billing", {"orders": "b||a"})
    assert warnings(caplog) == []  # the order of tags makes no difference
    for _ in range(3):
        await third.beat("c3", "billing", {"orders": "*", "refunds": "*"}, version=2)
        await peer.beat("c1", "billing", {"orders": "a || b"})
    (warning,) = warnings(caplog)
    assert "group=billing c1, c2 want orders (a || b); c3 want orders (*), refunds (*)" in warning
    assert broker.http_info()["groups_subscribing_differently"] == ["billing"]
    await third.beat("c3", "billing", {"orders": "c"}, version=3)
    assert "c3 want orders (c)" in warnings(caplog)[1]
    await third.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "c3", "consumerGroup": "billing"})
    assert len(warnings(caplog)) == 2
    assert "subscribe alike again group=billing" in caplog.text
    assert broker.http_info()["groups_subscribing_differently"] == []


async def test_a_group_that_ends_in_disagreement_is_forgotten(broker: Broker, peer: Peer, connect: Connect) -> None:
    other = await connect(broker)
    await peer.beat("c1", "billing", {"orders": "a"})
    await other.beat("c2", "billing", {"orders": "b"})
    assert broker.http_info()["groups_subscribing_differently"] == ["billing"]
    for each in (peer, other):
        await each.remoting.close()
    await eventually(lambda: not broker.clients.consumers)
    assert broker.http_info()["groups_subscribing_differently"] == []


async def test_expressions_of_other_kinds_and_the_groups_own_retry_topic(
    broker: Broker, peer: Peer, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    other = await connect(broker)
    await peer.beat("c1", "billing", {"orders": "*", "%RETRY%billing": "*"})
    await other.beat("c2", "billing", {"orders": "*"})
    assert warnings(caplog) == []  # a pull consumer has no retry topic
    await other.beat("c2", "billing", {"refunds": "*"})
    assert "c1 want orders (*); c2 want refunds (*)" in warnings(caplog)[0]


async def test_a_large_group_does_not_fill_the_log(
    broker: Broker, peer: Peer, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(MOST_NAMED + 2):
        await (await connect(broker)).beat(f"c{number}", "billing", {"orders": "*"})
    await peer.beat("odd", "billing", {"orders": "odd"})
    await (await connect(broker)).beat("another", "billing", {"orders": "*"})
    (warning,) = warnings(caplog)  # one for each difference, not for each member
    assert warning.endswith("c0, c1, c2, c3, c4 and 2 more want orders (*); odd want orders (odd)")
