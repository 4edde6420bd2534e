"""send_soon: sends that nobody waits for, until flush."""

from __future__ import annotations

import threading
from concurrent.futures import Future, as_completed
from typing import Any

import pytest

from pyromq import blocking
from pyromq.client.hooks import SendHook
from pyromq.client.send.send_soon import MOST_ON_THEIR_WAY
from pyromq.client.send_result import SendResult, SendStatus
from pyromq.errors import ClientError, InvalidMessage, PayloadError
from pyromq.protocol.messages.message import Message
from pyromq.testing import LocalCluster


@pytest.mark.parametrize("options", [{}, {"hooks": [SendHook()]}, {"linger": 0.005}], ids=["fast", "watched", "linger"])
def test_every_send_is_a_future(cluster: LocalCluster, topic: str, options: Any) -> None:
    with blocking.Producer("p", cluster.namesrv, **options) as producer:
        futures = [producer.send_soon(topic, {"number": number}, keys=str(number)) for number in range(20)]
        futures += [producer.send_soon(Message(topic, b"x")), producer.send_soon(topic, "y", order_key="k")]
        producer.flush(30)
        assert all(future.done() for future in futures)
        results = [future.result() for future in as_completed(futures)]
    assert {result.status for result in results} == {SendStatus.SEND_OK}
    assert len({result.message_id for result in results}) == len(futures)


def test_leaving_with_waits_for_all_and_many_threads_may_send_more_than_fits(cluster: LocalCluster, topic: str) -> None:
    futures: list[Future[SendResult]] = []

    def send() -> None:
        for _ in range(MOST_ON_THEIR_WAY):
            futures.append(producer.send_soon(topic, b"x"))

    with blocking.Producer("p", cluster.namesrv) as producer:
        threads = [threading.Thread(target=send) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(futures) == 3 * MOST_ON_THEIR_WAY
    assert {future.result(0).status for future in futures} == {SendStatus.SEND_OK}


def test_messages_with_one_key_keep_the_order_of_the_calls(cluster: LocalCluster, topic: str) -> None:
    with blocking.Producer("p", cluster.namesrv) as producer:
        producer.send(topic, "first", order_key="k")
        futures = [producer.send_soon(topic, str(number), order_key="k") for number in range(50)]
        offsets = [future.result().queue_offset for future in futures]
    assert offsets == sorted(offsets)


def test_a_failure_is_in_its_future_and_a_wrong_value_is_refused_at_once(cluster: LocalCluster, topic: str) -> None:
    with blocking.Producer("p", cluster.namesrv) as producer:
        with pytest.raises(PayloadError, match="a value of type object cannot be sent"):
            producer.send_soon(topic, object())
        with pytest.raises(InvalidMessage, match="only a Message can be sent"):
            producer.send_soon(topic)
        empty = producer.send_soon(topic, b"")
        good = producer.send_soon(topic, b"x")
        producer.flush()
        assert isinstance(empty.exception(), InvalidMessage)
        assert good.result().status is SendStatus.SEND_OK
    with pytest.raises(ClientError, match="not open"):
        producer.send_soon(topic, b"x").result(10)


def test_a_flush_that_takes_too_long_says_how_many_are_left(cluster: LocalCluster, topic: str) -> None:
    with blocking.Producer("p", cluster.namesrv) as producer:
        producer.send(topic, b"x")
        cluster.pause(cluster.brokers[0])
        futures = [producer.send_soon(topic, b"x") for _ in range(3)]
        with pytest.raises(TimeoutError, match=r"3 messages are still on their way after 0\.05 s"):
            producer.flush(0.05)
        cluster.resume(cluster.brokers[0])
        producer.flush()
        assert all(future.result() for future in futures)
