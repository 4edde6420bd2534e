"""CONSUMER_SEND_MSG_BACK: what was not consumed is stored again, for later or among the dead letters."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.broker.server import Broker
from pyromq.broker.tables.topic_table import topic_config
from pyromq.protocol.bodies import SubscriptionGroupConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import decode_messages
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
RETRIES = "%RETRY%billing"
DEAD_LETTERS = "%DLQ%billing"
OLD_CLIENT = 120


def stored(broker: Broker, topic: str, queue_id: int = 0) -> list[MessageExt]:
    """Return what a queue holds."""
    views = broker.store.get(topic, queue_id, 0, 100).views
    return decode_messages(b"".join(bytes(view) for view in views))


async def send_back(peer: Peer, offset: int = 0, *, expect: int = 0, **fields: Any) -> RemotingCommand:
    """Send back what lies at an offset of the log, as a Java consumer of the group `billing` does."""
    version = fields.pop("version", 409)
    values: dict[str, Any] = {"offset": offset, "group": "billing", "delay_level": 0}
    header = ConsumerSendMsgBackRequestHeader(**values | fields)
    return await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header, expect=expect, version=version)


async def failed(peer: Peer, broker: Broker, times: int = 0, **properties: str) -> MessageExt:
    """Have a message that was retried so often; return it."""
    topic = RETRIES if times else "orders"
    broker.topics.ensure(RETRIES, 1, "as by a heartbeat")
    end = broker.store.max_physical_offset
    await peer.send(
        topic, b"body", reconsume_times=times, flag=7, max_reconsume_times=99, properties=encode_properties(properties)
    )
    record = broker.store.read(end)
    assert record is not None
    return decode_messages(record)[0]


@pytest.mark.parametrize("times", [0, 1, 5, 15])
async def test_it_waits_by_three_levels_more_than_it_was_retried(peer: Peer, broker: Broker, times: int) -> None:
    message = await failed(peer, broker, times, TAGS="paid", KEYS="k", colour="red")
    await send_back(peer, message.physical_offset)
    (copy,) = stored(broker, SCHEDULE, 3 + times - 1)
    assert copy.reconsume_times == times + 1
    assert (copy.body, copy.flag, copy.born_timestamp_ms) == (b"body", 7, message.born_timestamp_ms)
    assert (copy.born_host, copy.store_host) == (message.born_host, message.store_host)
    assert copy.properties == {
        "TAGS": "paid",
        "KEYS": "k",
        "colour": "red",
        "CLUSTER": "DefaultCluster",
        "RETRY_TOPIC": message.topic,
        "ORIGIN_MESSAGE_ID": message.offset_message_id,
        "WAIT": "false",
        "DELAY": str(3 + times),
        "REAL_TOPIC": RETRIES,
        "REAL_QID": "0",
    }


@pytest.mark.parametrize(("asked", "queue_id"), [(1, 0), (18, 17), (19, 17), (10_000, 17)])
async def test_a_level_that_the_consumer_names_is_taken_up_to_the_highest(
    peer: Peer, broker: Broker, asked: int, queue_id: int
) -> None:
    message = await failed(peer, broker)
    await send_back(peer, message.physical_offset, delay_level=asked)
    (copy,) = stored(broker, SCHEDULE, queue_id)
    assert copy.reconsume_times == 1


async def test_the_first_topic_and_id_stay_through_all_retries(peer: Peer, broker: Broker) -> None:
    message = await failed(peer, broker, 3, RETRY_TOPIC="orders", ORIGIN_MESSAGE_ID="AB" * 16, DELAY="0")
    await send_back(peer, message.physical_offset)
    (copy,) = stored(broker, SCHEDULE, 5)
    assert (copy.properties["RETRY_TOPIC"], copy.properties["ORIGIN_MESSAGE_ID"]) == ("orders", "AB" * 16)


# --- dead letters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "fields"),
    [
        (16, {}),
        (17, {}),
        (0, {"delay_level": -1}),
        (2, {"max_reconsume_times": 2}),
        (0, {"max_reconsume_times": 0}),
        (16, {"max_reconsume_times": 20, "version": OLD_CLIENT}),
    ],
)
async def test_one_that_was_tried_often_enough_becomes_a_dead_letter(
    peer: Peer, broker: Broker, times: int, fields: dict[str, Any]
) -> None:
    message = await failed(peer, broker, times)
    await send_back(peer, message.physical_offset, pyromq_cause="ValueError: no (shop.py:1 in f)", **fields)
    (letter,) = stored(broker, DEAD_LETTERS)
    assert letter.reconsume_times == times + 1
    assert letter.properties["DELAY"] == "0"
    assert letter.properties["RETRY_TOPIC"] == message.topic
    assert letter.properties["PYROMQ_CAUSE"] == "ValueError: no (shop.py:1 in f)"
    topic = broker.topics.find(DEAD_LETTERS)
    assert (topic.config.perm, topic.read_queues, topic.write_queues) == (6, 1, 1)
    assert [read.body for read in await peer.read(DEAD_LETTERS)] == [b"body"]


@pytest.mark.parametrize(("times", "fields"), [(15, {}), (16, {"max_reconsume_times": 17}), (2, {"version": 409})])
async def test_one_that_was_not_is_retried(peer: Peer, broker: Broker, times: int, fields: dict[str, Any]) -> None:
    message = await failed(peer, broker, times)
    await send_back(peer, message.physical_offset, **fields)
    assert broker.topics.get(DEAD_LETTERS) is None
    assert stored(broker, SCHEDULE, min(3 + times, 18) - 1)


async def test_the_groups_own_limit_counts_unless_the_consumer_has_one(peer: Peer, broker: Broker) -> None:
    broker.groups.update(SubscriptionGroupConfig(group_name="billing", retry_max_times=1))
    message = await failed(peer, broker, 1)
    await send_back(peer, message.physical_offset, max_reconsume_times=2)
    assert broker.topics.get(DEAD_LETTERS) is None
    await send_back(peer, message.physical_offset)
    assert len(stored(broker, DEAD_LETTERS)) == 1


async def test_a_committed_transaction_may_fail_too(peer: Peer, broker: Broker) -> None:
    """TRAN_MSG stays in a committed message: it must not make its retry a half message again."""
    message = await failed(peer, broker, TRAN_MSG="false")
    await send_back(peer, message.physical_offset, delay_level=-1)
    assert stored(broker, DEAD_LETTERS)[0].properties["TRAN_MSG"] == "false"


# --- ours: the cause, and any delay -----------------------------------------------------------------------------------


async def test_the_cause_of_the_last_failure_is_kept_and_no_other(peer: Peer, broker: Broker) -> None:
    message = await failed(peer, broker, 1, PYROMQ_CAUSE="an older one")
    await send_back(peer, message.physical_offset, pyromq_cause="the newest")
    await send_back(peer, message.physical_offset)  # from a client that says nothing
    first, second = stored(broker, SCHEDULE, 3)
    assert first.properties["PYROMQ_CAUSE"] == "the newest"
    assert "PYROMQ_CAUSE" not in second.properties


async def test_a_hostile_cause_is_made_harmless(peer: Peer, broker: Broker) -> None:
    message = await failed(peer, broker)
    await send_back(peer, message.physical_offset, delay_level=-1, pyromq_cause="a\x02TAGS\x01b" + "é" * 40_000)
    (letter,) = stored(broker, DEAD_LETTERS)
    assert letter.tags is None
    assert letter.properties["PYROMQ_CAUSE"].startswith("a TAGS bé")
    assert len(letter.properties["PYROMQ_CAUSE"]) == 1000


async def test_without_room_for_the_cause_the_message_is_kept_all_the_same(peer: Peer, broker: Broker) -> None:
    message = await failed(peer, broker, large="x" * 31_800)
    await send_back(peer, message.physical_offset, pyromq_cause="c" * 900)
    (copy,) = stored(broker, SCHEDULE, 2)
    assert "PYROMQ_CAUSE" not in copy.properties
    assert len(copy.properties["large"]) == 31_800


async def test_no_delay_at_all_makes_it_visible_at_once(peer: Peer, broker: Broker) -> None:
    message = await failed(peer, broker, DELAY="0")
    await send_back(peer, message.physical_offset, delay_level=1, pyromq_delay_ms=0)
    (copy,) = await peer.read(RETRIES)
    assert (copy.body, copy.reconsume_times, "DELAY" in copy.properties) == (b"body", 1, False)


async def test_a_free_delay_is_kept_by_the_timer(peer: Peer, broker: Broker, clock: TestClock) -> None:
    message = await failed(peer, broker, TIMER_OUT_MS="99", PYROMQ_TIMER_FROM="4096")
    await send_back(peer, message.physical_offset, delay_level=5, pyromq_delay_ms=450_000)
    assert stored(broker, SCHEDULE, 4) == []
    await clock.advance_async(seconds=400, step=20)
    assert stored(broker, RETRIES) == []
    await clock.advance_async(seconds=60, step=20)
    await eventually(lambda: bool(stored(broker, RETRIES)))
    (copy,) = stored(broker, RETRIES)
    assert (copy.body, copy.reconsume_times, copy.properties["RETRY_TOPIC"]) == (b"body", 1, "orders")
    assert copy.properties["PYROMQ_TIMER_FROM"] != "4096", "what an earlier delivery left is gone"


async def test_a_delay_that_is_too_long_for_the_timer_goes_by_the_level(peer: Peer, broker: Broker) -> None:
    message = await failed(peer, broker)
    await send_back(peer, message.physical_offset, delay_level=18, pyromq_delay_ms=41 * 24 * 3600 * 1000)
    assert len(stored(broker, SCHEDULE, 17)) == 1


async def test_under_sync_flush_it_is_on_disk_before_the_consumer_hears_so(
    start_broker: StartBroker, connect: Connect
) -> None:
    """Apache's broker does not wait; a power cut then takes a message whose offset the consumer has committed."""
    broker = await start_broker(flushDiskType="SYNC_FLUSH")
    peer = await connect(broker)
    message = await failed(peer, broker)
    for level in (0, -1):
        await send_back(peer, message.physical_offset, delay_level=level)
        assert broker.store.flushed_offset == broker.store.max_physical_offset


# --- what is refused, in RocketMQ's order -----------------------------------------------------------------------------


async def test_an_unknown_group_is_refused_where_groups_are_not_created_by_use(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = await start_broker(autoCreateSubscriptionGroup="false", brokerPermission=4)
    answer = await send_back(await connect(broker), 1 << 40, expect=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
    assert "billing" in (answer.remark or "")
    assert broker.topics.get(RETRIES) is None


async def test_a_broker_that_may_not_be_written_to_is_next(start_broker: StartBroker, connect: Connect) -> None:
    broker = await start_broker(brokerPermission=4)
    await send_back(await connect(broker), 1 << 40, expect=ResponseCode.NO_PERMISSION)
    assert broker.topics.get(RETRIES) is None


async def test_a_group_without_retry_queues_has_its_failures_dropped(peer: Peer, broker: Broker) -> None:
    broker.groups.update(SubscriptionGroupConfig(group_name="billing", retry_queue_nums=0))
    end = broker.store.max_physical_offset
    await send_back(peer, 1 << 40)
    assert broker.store.max_physical_offset == end
    assert broker.topics.get(RETRIES) is None


async def test_then_the_retry_topics_permission_counts(peer: Peer, broker: Broker) -> None:
    broker.topics.update(topic_config(RETRIES, 1, perm=4))
    await send_back(peer, 1 << 40, expect=ResponseCode.NO_PERMISSION)


@pytest.mark.parametrize("offset", [-1, 5, 1 << 40])
async def test_a_message_that_is_not_there_is_an_error_that_names_the_offset(
    peer: Peer, broker: Broker, offset: int
) -> None:
    await failed(peer, broker)
    end = broker.store.max_physical_offset
    answer = await send_back(peer, offset, expect=ResponseCode.SYSTEM_ERROR)
    assert str(offset) in (answer.remark or "")
    assert broker.store.max_physical_offset == end


async def test_what_waits_for_its_time_cannot_be_sent_back(peer: Peer, broker: Broker) -> None:
    message = await failed(peer, broker)
    end = broker.store.max_physical_offset
    await send_back(peer, message.physical_offset)  # now a delayed message lies at `end`
    answer = await send_back(peer, end, expect=ResponseCode.SYSTEM_ERROR)
    assert "none for consumers" in (answer.remark or "")


async def test_a_group_with_more_retry_queues_uses_all_of_them(peer: Peer, broker: Broker) -> None:
    broker.groups.update(SubscriptionGroupConfig(group_name="billing", retry_queue_nums=4))
    await peer.send()
    for _ in range(60):
        await send_back(peer, 0)
    assert broker.topics.find(RETRIES).config.write_queue_nums == 4
    assert {copy.properties["REAL_QID"] for copy in stored(broker, SCHEDULE, 2)} == {"0", "1", "2", "3"}
