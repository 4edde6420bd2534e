"""What a master answers slaves: filters, queue locks and delay levels go with the log; a change waits for slaves."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import pytest

from pyromq import Message
from pyromq.blocking import Producer
from pyromq.protocol.bodies import (
    LockBatchRequestBody,
    LockBatchResponseBody,
    SubscriptionData,
    SubscriptionGroupConfig,
    decode,
    encode,
)
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.headers.admin import DeleteTopicInBrokerRequestHeader
from pyromq.protocol.messages.message import MessageQueue
from pyromq.testing import wait_until
from pyromq.testing.cluster import LocalBroker
from tests.broker.replication.tables.conftest import Pair
from tests.broker.replication.test_replication import send, server

QUEUE = MessageQueue("orders", "broker-a", 0)


def sql(expression: str, version: int = 1) -> SubscriptionData:
    return SubscriptionData(topic="orders", sub_string=expression, expression_type="SQL92", sub_version=version)


def expression_at(broker: LocalBroker) -> str | None:
    found = server(broker).service.parts.tables.filters.get("orders", "billing")
    return found.expression if found else None


def lock(pair: Pair, broker: LocalBroker, client: str, group: str = "billing") -> bool:
    body = LockBatchRequestBody(consumer_group=group, client_id=client, mq_set=[QUEUE])
    answer = pair.ask(broker, RequestCode.LOCK_BATCH_MQ, body=encode(body))
    return answer.code == 0 and decode(LockBatchResponseBody, answer.body).lock_ok_mq_set == [QUEUE]


def unlock(pair: Pair, broker: LocalBroker, client: str) -> None:
    body = LockBatchRequestBody(consumer_group="billing", client_id=client, mq_set=[QUEUE])
    pair.ask(broker, RequestCode.UNLOCK_BATCH_MQ, body=encode(body))


# --- filters


def test_registered_filters_follow_and_so_do_their_changes_and_ends(brokers: Pair) -> None:
    filters = server(brokers.master).service.parts.tables.filters
    brokers.run(lambda: filters.register("billing", [sql("a > 5")]))
    wait_until(lambda: expression_at(brokers.slave) == "a > 5")
    brokers.run(lambda: filters.register("billing", [sql("a > 6", 2)]))
    wait_until(lambda: expression_at(brokers.slave) == "a > 6")
    brokers.run(lambda: filters.unregister("billing"))
    copied = server(brokers.slave).service.parts.tables.filters
    wait_until(lambda: (found := copied.get("orders", "billing")) is not None and found.dead_ms > 0)
    brokers.cluster.clock.advance(hours=25, step=3600)
    wait_until(lambda: not filters.keys)
    wait_until(lambda: expression_at(brokers.slave) is None)


def test_a_slave_that_comes_back_has_the_filters_of_now(brokers: Pair) -> None:
    filters = server(brokers.master).service.parts.tables.filters
    brokers.run(lambda: filters.register("billing", [sql("a > 5")]))
    brokers.run(lambda: filters.register("gone", [sql("a > 5")]))
    copied = server(brokers.slave).service.parts.tables.filters
    wait_until(lambda: len(copied.keys) == 2)
    brokers.cluster.stop_broker(brokers.slave)
    brokers.run(lambda: filters.discard([("orders", "gone")], ()))
    brokers.run(lambda: filters.register("audit", [sql("b = 1")]))
    brokers.cluster.start_broker(brokers.slave)
    copied = server(brokers.slave).service.parts.tables.filters
    wait_until(lambda: set(copied.keys) == {("orders", "billing"), ("orders", "audit")})


def test_a_promoted_slave_keeps_a_filter_for_a_day_if_nobody_asks_for_it(brokers: Pair) -> None:
    filters = server(brokers.master).service.parts.tables.filters
    brokers.run(lambda: filters.register("billing", [sql("a > 5")]))
    wait_until(lambda: expression_at(brokers.slave) == "a > 5")
    brokers.hand_over()
    found = server(brokers.slave).service.parts.tables.filters.get("orders", "billing")
    assert found is not None
    assert found.dead_ms > 0


# --- delay levels


def has_progress(pair: Pair) -> bool:
    """Return True if the slave knows that the first message of level 1 was delivered; time goes on meanwhile."""
    pair.cluster.clock.advance(seconds=1)
    return server(pair.slave).service.parts.tables.delays.saved.offsets == {1: 1}


def test_the_progress_of_delay_levels_follows_and_nothing_is_delivered_twice(brokers: Pair) -> None:
    with Producer("shop", brokers.cluster.namesrv, clock=brokers.cluster.clock) as producer:
        producer.send(Message("later", b"x"), level=1)
        producer.send(Message("later", b"y"), level=18)
    brokers.cluster.clock.advance(seconds=3)
    wait_until(lambda: server(brokers.master).http_info()["delayed_messages_delivered"] == 1)
    wait_until(lambda: has_progress(brokers))
    answer = brokers.ask(brokers.master, RequestCode.GET_ALL_DELAY_OFFSET)
    assert answer.body == b'{"offsetTable":{1:1}}'
    brokers.hand_over()
    slave = server(brokers.slave)
    brokers.cluster.clock.advance(hours=2, seconds=5)
    wait_until(lambda: slave.http_info()["delayed_messages_delivered"] == 1)
    brokers.cluster.clock.advance(seconds=10)
    queues = slave.store.queue_ids("later")
    assert sum(slave.store.max_offset("later", queue) for queue in queues) == 2


def test_progress_is_saved_at_the_slave(brokers: Pair) -> None:
    with Producer("shop", brokers.cluster.namesrv, clock=brokers.cluster.clock) as producer:
        producer.send(Message("later", b"x"), level=1)
    brokers.cluster.clock.advance(seconds=3)
    wait_until(lambda: has_progress(brokers))
    brokers.cluster.stop_broker(brokers.slave)
    text = (brokers.slave.store_path / "config" / "delayOffset.json").read_text()
    assert "1:1" in text.replace(" ", "").replace("\t", "")


# --- queue locks


def test_a_lock_is_given_to_another_client_only_after_it_has_run_out_at_the_old_master(brokers: Pair) -> None:
    assert lock(brokers, brokers.master, "first")
    assert not lock(brokers, brokers.master, "second")
    brokers.hand_over()  # at once: the answer to the first came after the slave knew it
    assert not lock(brokers, brokers.slave, "second")
    assert lock(brokers, brokers.slave, "first")
    brokers.cluster.clock.advance(seconds=59)
    assert not lock(brokers, brokers.slave, "second")
    brokers.cluster.clock.advance(seconds=2)
    assert lock(brokers, brokers.slave, "second")


def test_a_lock_that_was_given_up_is_free_after_a_promotion(brokers: Pair) -> None:
    assert lock(brokers, brokers.master, "first")
    unlock(brokers, brokers.master, "first")
    locks = server(brokers.slave).service.parts.tables.locks
    wait_until(lambda: not locks.keys)
    brokers.hand_over()
    assert lock(brokers, brokers.slave, "second")


def test_a_master_that_is_restarted_hears_of_the_locks_of_before(brokers: Pair) -> None:
    assert lock(brokers, brokers.master, "first")
    brokers.cluster.stop_broker(brokers.master)
    brokers.cluster.start_broker(brokers.master)
    locks = server(brokers.master).service.parts.tables.locks
    wait_until(lambda: locks.owner(("billing", QUEUE)) == "first")
    assert not lock(brokers, brokers.master, "second")


def test_a_demoted_master_keeps_the_locks(brokers: Pair) -> None:
    assert lock(brokers, brokers.master, "first")
    brokers.cluster.promote(brokers.slave)
    brokers.cluster.demote(brokers.master)
    wait_until(lambda: server(brokers.slave).service.parts.followers.are_there)
    assert not lock(brokers, brokers.slave, "second")
    assert server(brokers.master).service.parts.tables.locks.owner(("billing", QUEUE)) == "first"


def test_a_new_holder_is_answered_though_a_slave_hangs(
    brokers: Pair, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang(brokers, monkeypatch)
    with caplog.at_level(logging.WARNING, "pyromq.broker.tables.table_followers"):
        assert lock(brokers, brokers.master, "first")
    assert "a queue lock is not known to a slave after 0.3 s slave=1" in caplog.text


def hang(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the slave take nothing over any more, though its connection stands."""

    async def never(*_: object) -> None:
        await pair.cluster.clock.sleep(1_000_000)

    monkeypatch.setattr(server(pair.slave)._follower._tables, "_take", never)


# --- administrators' changes


def create_topic(pair: Pair, name: str) -> None:
    fields = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2", "perm": "6"}
    answer = pair.ask(pair.master, RequestCode.UPDATE_AND_CREATE_TOPIC, fields | {"topicFilterType": "SINGLE_TAG"})
    assert answer.code == 0


def test_an_administrators_change_is_answered_when_the_slave_has_it(brokers: Pair) -> None:
    slave = server(brokers.slave)
    create_topic(brokers, "paid")
    assert "paid" in slave.topics.by_name
    group = encode(SubscriptionGroupConfig(group_name="billing"))
    brokers.ask(brokers.master, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group)
    assert "billing" in slave.groups.by_name
    brokers.ask(brokers.master, RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "billing"})
    assert "billing" not in slave.groups.by_name
    brokers.ask(brokers.master, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequestHeader(topic="orders"))
    assert "orders" not in slave.topics.by_name
    assert slave.store.queue_ids("orders") == []


def test_an_administrators_change_is_answered_though_a_slave_hangs(
    brokers: Pair, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang(brokers, monkeypatch)
    with caplog.at_level(logging.WARNING, "pyromq.broker.tables.table_followers"):
        create_topic(brokers, "paid")
    assert "topic paid is not known to a slave after 2 s slave=1" in caplog.text


def test_a_slave_that_has_gone_is_not_waited_for(brokers: Pair, caplog: pytest.LogCaptureFixture) -> None:
    brokers.cluster.stop_broker(brokers.slave)
    wait_until(lambda: not server(brokers.master).service.parts.followers.are_there)
    create_topic(brokers, "paid")
    assert "not known to a slave" not in caplog.text


def test_a_send_that_creates_a_topic_waits_for_no_slave(
    brokers: Pair, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang(brokers, monkeypatch)
    with caplog.at_level(logging.WARNING, "pyromq.broker.tables.table_followers"):
        send(brokers.cluster, b"x", topic="new")
    assert "not known to a slave" not in caplog.text


def test_a_slave_that_asks_for_changes_too_old_takes_all_rows(brokers: Pair) -> None:
    master, slave = server(brokers.master), server(brokers.slave)
    keys = master.topics.changed_keys

    def forget() -> None:
        keys._forgotten = keys.mark + 1
        keys.note("orders")
        keys.note("orders")

    brokers.run(forget)
    brokers.run(lambda: master.groups.update(SubscriptionGroupConfig(group_name="billing")))
    wait_until(lambda: "billing" in slave.groups.by_name)


def test_the_answer_to_apaches_slaves_is_json_with_bare_keys(brokers: Pair) -> None:
    answer = brokers.ask(brokers.slave, RequestCode.GET_ALL_DELAY_OFFSET)
    assert answer.code == 0
    assert json.loads(answer.body) == {"offsetTable": {}}


def test_a_timer_waits_on_at_a_promoted_slave(brokers: Pair) -> None:
    with Producer("shop", brokers.cluster.namesrv, clock=brokers.cluster.clock) as producer:
        producer.send(Message("later", b"x"), delay=timedelta(seconds=30))
    end = server(brokers.master).store.max_physical_offset
    wait_until(lambda: server(brokers.slave).store.max_physical_offset == end)
    brokers.hand_over()
    brokers.cluster.clock.advance(seconds=31)
    wait_until(lambda: server(brokers.slave).http_info()["timed_messages_delivered"] == 1)


def test_a_master_that_stops_does_not_wait_for_a_slave_that_waits_for_changes(
    brokers: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question is held for 5 s if nothing changes; a stop would wait for that."""
    followers = server(brokers.master).service.parts.followers
    wait_until(lambda: followers.are_there)
    asked: list[int] = []
    note = followers.note

    def count(broker_id: int, *what: Any) -> None:
        asked.append(broker_id)
        note(broker_id, *what)

    monkeypatch.setattr(followers, "note", count)
    brokers.run(followers.close)
    wait_until(lambda: len(asked) > 20)  # in vain for a minute and a half if they were held
