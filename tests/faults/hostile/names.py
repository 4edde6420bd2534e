"""Floods of names: each costs memory, a row in a table, or a file, and strangers invent them for nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count

from pyromq.protocol.codes import RequestCode as Code
from tests.faults.hostile.target import Target, heartbeat, request, send
from tests.faults.hostile_frames import registration


def _numbered(make: Callable[[int], bytes], at_a_time: int = 20) -> Iterator[bytes]:
    numbers = count()
    while True:
        yield b"".join(make(next(numbers)) for _ in range(at_a_time))


def topics(target: Target) -> None:
    """Send each message to a new topic."""
    target.ask_all_the_time(_numbered(lambda number: send(f"rude-{number}")))


def illegal_topics(target: Target) -> None:
    """Send to topics whose names lead out of the store, or are too long."""
    names = ("../../x", "/etc/passwd", "a" * 300, "a\x00b", "%RETRY%../x", "..", "")
    target.ask_all_the_time(_numbered(lambda number: send(names[number % len(names)])))


def consumer_groups(target: Target) -> None:
    """Be in a new group with each heartbeat."""
    target.ask_all_the_time(_numbered(lambda number: heartbeat("c", [], [f"rude-{number}"])), connections=4)


def producer_groups(target: Target) -> None:
    """Be in a thousand new groups with each heartbeat."""
    names = _numbered(lambda number: heartbeat("c", [f"rude-{number}-{one}" for one in range(1_000)], []), 1)
    target.ask_all_the_time(names, connections=20)


def client_ids(target: Target) -> None:
    """Be another client with each heartbeat."""
    target.ask_all_the_time(_numbered(lambda number: heartbeat(f"c-{number}" * 20, ["p"], ["rude"])), connections=20)


def committed_groups(target: Target) -> None:
    """Commit each offset for a new group."""

    def commit(number: int) -> bytes:
        ext = {"consumerGroup": f"rude-{number}", "topic": "TBW102", "queueId": "0", "commitOffset": "1"}
        return request(Code.UPDATE_CONSUMER_OFFSET, ext)

    target.ask_all_the_time(_numbered(commit), connections=2)


def locked_queues(target: Target) -> None:
    """Lock queues of topics that do not exist, for groups that do not exist."""

    def lock(number: int) -> bytes:
        queues = [{"topic": f"t-{number}", "brokerName": "broker-a", "queueId": queue} for queue in range(2_000)]
        body = {"consumerGroup": f"rude-{number}", "clientId": "c", "mqSet": queues}
        return request(Code.LOCK_BATCH_MQ, {}, json.dumps(body).encode())

    target.ask_all_the_time(_numbered(lock, 1), connections=4)


def registered_topics(target: Target) -> None:
    """Tell the name server of millions of topics."""

    def register(number: int) -> bytes:
        text = b"t%d-# 8 8 6 SINGLE_TAG" % number
        return _registration(f"rude-{number % 50}", registration(50_000, text))

    target.ask_all_the_time(_numbered(register, 1), target.namesrv)


def registered_brokers(target: Target) -> None:
    """Register brokers that do not exist."""
    frames = _numbered(lambda number: _registration(f"rude-{number}", registration(1)))
    target.ask_all_the_time(frames, target.namesrv, connections=4)


def kv_pairs(target: Target) -> None:
    """Fill the KV settings of the name server."""

    def put(number: int) -> bytes:
        return request(Code.PUT_KV_CONFIG, {"namespace": f"n{number}", "key": "k", "value": "v" * 10_000})

    target.ask_all_the_time(_numbered(put, 2), target.namesrv, connections=2)


def unknown_routes(target: Target) -> None:
    """Ask the name server for topics that do not exist."""
    frames = _numbered(lambda number: request(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": f"rude-{number}"}))
    target.ask_all_the_time(frames, target.namesrv, connections=8)


def _registration(name: str, body: bytes) -> bytes:
    ext = {"brokerName": name, "brokerAddr": f"{name}:1", "clusterName": "rude", "haServerAddr": "", "brokerId": "0"}
    return request(Code.REGISTER_BROKER, ext | {"compressed": "true", "bodyCrc32": "0"}, body)
