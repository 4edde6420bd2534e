"""Two consumers of one group in one process that subscribe differently: one clear warning."""

from __future__ import annotations

import pytest

from pyromq.client.consume.subscriptions import Expression, Sql
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.testing import LocalCluster
from tests.client.helpers import Heard, fill


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if "in this process subscribe differently" in record.getMessage()
    ]


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("created", "paid", "by TAG 'created' and by TAG 'paid'"),
        ("created", Sql("a > 1"), "by TAG 'created' and by SQL92 'a > 1'"),
        ("created", "created", None),
    ],
)
async def test_two_members_with_other_filters_are_reported_once(
    cluster: LocalCluster, topic: str, group: str, first: Expression, second: Expression, told: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    async with (
        PushConsumer(group, cluster.namesrv, {topic: first}, Heard()),
        PushConsumer(group, cluster.namesrv, {topic: second}, Heard()),
    ):
        pass
    assert len(warnings(caplog)) == (1 if told else 0)
    if told:
        assert f"group={group}" in warnings(caplog)[0]
        assert f"topic {topic!r} {told}" in warnings(caplog)[0]


async def test_one_topic_less_is_reported_too(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(producer, topic, 1)
    async with (
        LitePullConsumer(group, cluster.namesrv, {topic: "*", f"{topic}-2": "*"}),
        LitePullConsumer(group, cluster.namesrv, {topic: "*"}),
    ):
        pass
    assert f"topic '{topic}-2' by TAG '*' and by nothing" in warnings(caplog)[0]


async def test_one_after_the_other_and_other_groups_may_differ(
    cluster: LocalCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    for tags in ("created", "paid"):
        async with (
            PushConsumer(group, cluster.namesrv, {topic: tags}, Heard()),
            PushConsumer(f"{group}-{tags}", cluster.namesrv, {topic: "other"}, Heard()),
        ):
            pass
    assert warnings(caplog) == []
