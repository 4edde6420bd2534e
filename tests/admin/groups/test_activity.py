"""Groups put together from the answers of several brokers."""

from __future__ import annotations

from pyromq.admin import AdminClient
from pyromq.admin.groups.activity import is_unclear, rows_by_group, summary_of
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.bodies import MessageModel
from pyromq.protocol.bodies.activity import GroupActivities, GroupActivity
from pyromq.protocol.codes import RequestCode
from pyromq.testing import LocalCluster
from tests.admin.groups.helpers import commit, fill


def row(
    lag: int = 0, *members: str, model: MessageModel = MessageModel.CLUSTERING, topic: str = "orders"
) -> GroupActivity:
    return GroupActivity(members, model if members else None, lag, None, 0, 0.0, (topic, "%RETRY%billing"))


def test_rows_of_all_brokers_are_joined() -> None:
    answers = [GroupActivities(0, {"billing": row(1)}), None, GroupActivities(0, {"billing": row(2), "audit": row()})]
    assert {name: len(rows) for name, rows in rows_by_group(answers).items()} == {"billing": 2, "audit": 1}


def test_a_member_that_two_brokers_know_counts_once() -> None:
    summary = summary_of("billing", [row(1, "a", "b"), row(2, "b")])
    assert (summary.members, summary.lag, summary.topics) == (2, 3, ("orders",))


def test_only_what_members_subscribe_to_is_a_topic_of_the_group() -> None:
    assert summary_of("billing", [row(0, "a"), row(0, topic="old")]).topics == ("orders",)
    assert summary_of("billing", [row(0), row(0, topic="old")]).topics == ("old", "orders")


def test_members_and_lag_at_different_brokers_are_unclear() -> None:
    assert not is_unclear([row(5), row(5)])
    assert not is_unclear([row(5, "a"), row(0)])
    assert is_unclear([row(5, "a"), row(1)])
    assert is_unclear([row(0, "a", model=MessageModel.BROADCASTING)])


async def test_brokers_of_both_kinds_list_the_same_groups(
    pair: LocalCluster, admin: AdminClient, api: BrokerApi, topic: str, group: str
) -> None:
    await fill(pair, api, topic)
    await commit(pair, api, group, topic, 2)
    ours = await admin.groups.list()
    for broker in pair.brokers:
        assert broker.server is not None
        broker.server.handlers.pop(RequestCode.GROUP_ACTIVITY)
    theirs = await admin.groups.list()
    assert {one.group: one for one in ours.groups} == {one.group: one for one in theirs.groups}
    assert {one.group: one.lag for one in ours.groups}[group] == 6
