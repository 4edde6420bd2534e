"""Scenarios for Apache's C++ client (PyPI's rocketmq), each in a separate process, because it may crash at shutdown.

    python cpp_scenarios.py SCENARIO NAMESRV TOPIC

Prints one JSON line for each thing done; whoever started it judges by those, not by how the process ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from rocketmq.client import Message, MessageModel, Producer, PullConsumer, PushConsumer
from rocketmq.exceptions import RocketMQException

COUNT = 20


def say(**facts: Any) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")  # in one write: listeners run on several threads


def started_producer(namesrv: str) -> Any:
    producer = Producer("cpp-producer", timeout=10_000)
    producer.set_namesrv_addr(namesrv)
    producer.start()
    return producer


def patiently(send: Callable[..., Any], *arguments: Any) -> Any:
    """Send; retry if the client found no route, because it gives up too early on a busy machine."""
    for _ in range(4):
        try:
            return send(*arguments)
        except RocketMQException as error:
            if "No route info" not in str(error):
                raise
    return send(*arguments)


def message(topic: str, number: int) -> Any:
    made = Message(topic)
    made.set_keys(f"k-{number}")
    made.set_tags("odd" if number % 2 else "even")
    made.set_property("number", str(number))
    made.set_body(f"body {number}")
    return made


def send_sync(namesrv: str, topic: str) -> None:
    producer = started_producer(namesrv)
    for number in range(COUNT):
        result = patiently(producer.send_sync, message(topic, number))
        say(status=int(result.status), message_id=result.msg_id, offset=result.offset)


def send_async(namesrv: str, topic: str) -> None:
    producer = started_producer(namesrv)
    patiently(producer.send_sync, message(topic, 0))  # creates the topic
    answered = threading.Semaphore(0)

    def sent(result: Any) -> None:
        say(status=int(result.status), message_id=result.msg_id, offset=result.offset)
        answered.release()

    def failed(error: Exception) -> None:
        say(error=str(error))
        answered.release()

    under_way = [message(topic, number) for number in range(1, COUNT)]  # kept, because the client does not copy them
    for one in under_way:
        producer.send_async(one, sent, failed)
    for _ in under_way:
        answered.acquire(timeout=40)


def send_oneway(namesrv: str, topic: str) -> None:
    producer = started_producer(namesrv)
    patiently(producer.send_sync, message(topic, 0))  # creates the topic
    for number in range(1, COUNT):
        producer.send_oneway(message(topic, number))
    time.sleep(0.5)  # another thread sends it
    say(done=True)


def send_batch(namesrv: str, topic: str) -> None:
    producer = started_producer(namesrv)
    patiently(producer.send_sync, message(topic, 0))  # creates the topic
    result = producer.send_batch([message(topic, number) for number in range(1, COUNT)])
    say(status=int(result.status), offset=result.offset)


def send_orderly(namesrv: str, topic: str) -> None:
    producer = started_producer(namesrv)
    for number in range(COUNT):
        result = patiently(producer.send_orderly, message(topic, number), 7)
        say(status=int(result.status), offset=result.offset)


def send_large(namesrv: str, topic: str) -> None:
    producer = started_producer(namesrv)
    large = Message(topic)
    large.set_body("x" * 100_000)
    say(status=int(patiently(producer.send_sync, large).status))


def pull(namesrv: str, topic: str) -> None:
    consumer = PullConsumer("cpp-puller")
    consumer.set_namesrv_addr(namesrv)
    consumer.start()
    for found in consumer.pull(topic):
        say(
            topic=found.topic,
            body=found.body.decode(),
            tags=found.tags.decode(),
            keys=found.keys.decode(),
            number=found["number"].decode(),
            queue_id=found.queue_id,
            queue_offset=found.queue_offset,
            message_id=found.id,
        )


def push_by_tag(namesrv: str, topic: str) -> None:
    listen_for(COUNT // 2, namesrv, topic, PushConsumer("cpp-by-tag"), "odd")


def push_concurrently(namesrv: str, topic: str) -> None:
    listen_for(COUNT, namesrv, topic, PushConsumer("cpp-concurrent"))


def push_orderly(namesrv: str, topic: str) -> None:
    listen_for(COUNT, namesrv, topic, PushConsumer("cpp-orderly", orderly=True))


def listen_for(count: int, namesrv: str, topic: str, consumer: Any, expression: str = "*") -> None:
    received = threading.Semaphore(0)

    def listen(found: Any) -> None:
        say(body=found.body.decode(), tags=found.tags.decode(), queue_id=found.queue_id, offset=found.queue_offset)
        received.release()

    consumer.set_namesrv_addr(namesrv)
    consumer.subscribe(topic, listen, expression)
    consumer.start()
    for _ in range(count):
        received.acquire(timeout=40)


def push_broadcasting(namesrv: str, topic: str) -> None:
    heard: dict[str, set[str]] = {"one": set(), "two": set()}
    consumers = [broadcasting_consumer(namesrv, topic, name, bodies) for name, bodies in heard.items()]
    producer = started_producer(namesrv)
    until(lambda: all(heard.values()), lambda: producer.send_sync(message(topic, -1)))  # both listen now
    for number in range(COUNT):
        patiently(producer.send_sync, message(topic, number))
    until(lambda: all(len(bodies) > COUNT for bodies in heard.values()), lambda: None)
    for name, bodies in heard.items():
        say(name=name, bodies=sorted(bodies - {"body -1"}))
    del consumers


def broadcasting_consumer(namesrv: str, topic: str, name: str, bodies: set[str]) -> Any:
    consumer = PushConsumer("cpp-broadcasting", message_model=MessageModel.BROADCASTING)
    consumer.set_instance_name(name)
    consumer.set_namesrv_addr(namesrv)
    consumer.subscribe(topic, lambda found: bodies.add(found.body.decode()))
    consumer.start()
    return consumer


def until(condition: Callable[[], bool], again: Callable[[], Any]) -> None:
    """Wait until a condition holds, for at most 40 s, and repeat an action meanwhile."""
    end = time.monotonic() + 40
    while not condition() and time.monotonic() < end:
        again()
        time.sleep(0.2)


def push_fails_once(namesrv: str, topic: str) -> None:
    taken = threading.Event()

    def listen(found: Any) -> None:
        say(topic=found.topic, body=found.body.decode(), times=found.reconsume_times)
        if found.reconsume_times == 0:
            raise ValueError("not the first time")
        taken.set()

    consumer = PushConsumer("cpp-failing")
    consumer.set_namesrv_addr(namesrv)
    consumer.subscribe(topic, listen)
    consumer.start()
    taken.wait(timeout=60)


if __name__ == "__main__":
    scenario, namesrv, topic = sys.argv[1:]
    globals()[scenario](namesrv, topic)
    os._exit(0)
