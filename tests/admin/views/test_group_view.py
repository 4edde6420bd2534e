"""The JSON of groups and topics."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from pyromq import MessageQueue
from pyromq.admin import (
    GroupDescription,
    GroupSummary,
    HeadMessage,
    Member,
    QueueContents,
    QueueProgress,
    TopicConsumer,
    TopicCount,
    TopicDescription,
    TopicSubscription,
)
from pyromq.admin.views.group_view import group_fields, group_summary_fields
from pyromq.admin.views.topic_view import topic_fields
from pyromq.protocol.bodies import ConsumeFromWhere, ConsumeType, MessageModel, QueueData, SubscriptionGroupConfig

QUEUE = MessageQueue("orders", "broker-a", 3)
STORED = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
SUBSCRIPTION = TopicSubscription(topic="orders", expression="*", kind="TAG")


def billing() -> GroupDescription:
    head = HeadMessage(queue_offset=7, message_id="0A", keys=("o-1",), tags=None, stored=STORED, listening=12.34567)
    return GroupDescription(
        group="billing",
        model=MessageModel.CLUSTERING,
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        start_from=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        settings={"broker-a": SubscriptionGroupConfig(group_name="billing")},
        members=(
            Member(
                client_id="m", address="a:1", language="JAVA", version="4.9.8", brokers=("broker-a",), queues=(QUEUE,)
            ),
        ),
        subscriptions=(SUBSCRIPTION,),
        opinions=(),
        queues=(
            QueueProgress(
                queue=QUEUE, committed_offset=7, end_offset=9, lag=2, behind=1.23456, owners=("m",), head=head
            ),
        ),
        rate=0.12345,
        retries=None,
        dead_letters=TopicCount(topic="%DLQ%billing", messages=2),
        findings=("something",),
        silent_brokers={"broker-b": "gone"},
    )


def test_a_group_is_plain_json_with_rounded_times() -> None:
    fields = json.loads(json.dumps(group_fields(billing())))
    assert (fields["group"], fields["lag"], fields["behind_seconds"]) == ("billing", 2, 1.235)
    assert (fields["model"], fields["messages_per_second"]) == ("CLUSTERING", 0.123)
    (queue,) = fields["queues"]
    assert (queue["topic"], queue["broker_name"], queue["queue_id"], queue["owners"]) == (
        "orders",
        "broker-a",
        3,
        ["m"],
    )
    assert queue["head"] == {
        "queue_offset": 7,
        "message_id": "0A",
        "keys": ["o-1"],
        "tags": None,
        "store_timestamp": "2023-11-14T22:13:20.000Z",
        "listening_seconds": 12.346,
    }
    (member,) = fields["members"]
    assert (member["queues"], member["idle"]) == ([QUEUE._asdict()], False)
    assert (fields["retries"], fields["dead_letters"]) == (None, {"topic": "%DLQ%billing", "messages": 2})
    assert "group_name" not in fields["settings"]["broker-a"]
    assert (fields["findings"], fields["silent_brokers"]) == (["something"], {"broker-b": "gone"})


def test_a_group_of_a_list_is_a_row() -> None:
    summary = GroupSummary(group="billing", members=1, model=None, topics=("orders",), lag=3)
    expected = {"group": "billing", "members": 1, "model": None, "topics": ["orders"], "lag": 3}
    assert json.loads(json.dumps(group_summary_fields(summary))) == expected


def test_a_topic_is_plain_json() -> None:
    topic = TopicDescription(
        topic="orders",
        kind="topic",
        settings={"broker-a": QueueData(broker_name="broker-a", read_queue_nums=4, write_queue_nums=4, perm=6)},
        order=None,
        queues=(QueueContents(queue=QUEUE, min_offset=2, max_offset=9, last_stored=STORED),),
        groups=(TopicConsumer(group="billing", members=1, lag=2),),
        findings=(),
        silent_brokers={},
    )
    fields = json.loads(json.dumps(topic_fields(topic)))
    assert fields["settings"] == {"broker-a": {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6}}
    (queue,) = fields["queues"]
    assert (queue["messages"], queue["last_store_timestamp"]) == (7, "2023-11-14T22:13:20.000Z")
    assert fields["groups"] == [{"group": "billing", "members": 1, "lag": 2}]
