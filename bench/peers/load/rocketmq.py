"""Requests of RocketMQ 4.9 as Java's clients write them: sends with a key and a tag, pulls that commit."""

from __future__ import annotations

import json
import secrets
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from pyromq.protocol.acl import ACCESS_KEY, SIGNATURE, Credentials, sign
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import decode
from pyromq.protocol.names import TBW102
from pyromq.protocol.tag_filter import tag_code

from .generator import MARKS, Load, Ring, Shape, connected, receive

QUEUES = 4
TAG = "bench"
_PREFIX = struct.Struct(">II")
_PULL_FLAGS = 1 | 2  # commit the offset, wait if there is nothing
_CARRIED = 4  # the request carries its subscription
_NUMBER, _HEX, _TIME = (mark.decode() for mark in MARKS)
_VERSION = 407  # 4.9.7
_SIGNED_RING = 64
_PULL_RING = 256


class Messages(NamedTuple):
    """What is sent: to topics in turn, to all their queues."""

    topics: Sequence[str]
    size: int = 1024
    queues: int = QUEUES
    account: Credentials | None = None


class Backlog(NamedTuple):
    """What is pulled: ranges of offsets as (queue, first, end)."""

    topic: str
    ranges: Sequence[tuple[int, int, int]]
    tag: str = TAG
    group: str = "bench-pull"
    commit: bool = True
    heartbeat: bool = False
    """Whether the subscription comes by heartbeat, as for Java's push consumers, and not with each pull."""
    once: bool = False
    """Whether the slots share the messages out, as when a backlog is read once; otherwise each reads a part again."""
    batch: int = 32
    account: Credentials | None = None


def frame(code: int, fields: Mapping[str, str], opaque: int, body: bytes = b"") -> bytes:
    """Return a request with a JSON header, its keys in the order of Java's clients."""
    head = {
        "code": code, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON", "version": _VERSION,
    }  # fmt: skip
    header = json.dumps(head, separators=(",", ":")).encode()
    return _PREFIX.pack(4 + len(header) + len(body), len(header)) + header + body


@contextmanager
def sends(address: tuple[str, int], shape: Shape, messages: Messages) -> Iterator[Load]:
    """Connect and return the load of a number of producers."""
    body = secrets.token_hex(messages.size // 2 + 1)[: messages.size].encode()
    seed = secrets.token_hex(8).upper()
    slots = shape.connections * shape.window
    with connected(address, shape.connections) as sockets:
        rings = [
            [
                _send_ring(messages, body, seed, index, connection * shape.window + index, slots)
                for index in range(shape.window)
            ]
            for connection in range(shape.connections)
        ]
        yield Load("rocketmq", sockets, rings)


def _send_ring(messages: Messages, body: bytes, seed: str, opaque: int, slot: int, slots: int) -> Ring:
    """Return requests to a slot's share of the topics; with one topic each slot has its own queue."""
    own = messages.topics[slot % len(messages.topics) :: slots]
    sent = [_send_fields(topic, (slot + number) % messages.queues, seed) for number, topic in enumerate(own)]
    if messages.account is None:
        return [frame(RequestCode.SEND_MESSAGE_V2, fields, opaque, body) for fields in sent]
    return [_signed(fields, opaque, body, messages.account) for fields in sent for _ in range(_SIGNED_RING)]


def _send_fields(topic: str, queue_id: int, seed: str) -> dict[str, str]:
    properties = f"KEYS\x01k{_NUMBER}\x02UNIQ_KEY\x01{seed}{_HEX}\x02WAIT\x01true\x02TAGS\x01{TAG}"
    return {
        "a": "bench-send", "b": topic, "c": TBW102, "d": str(QUEUES), "e": str(queue_id), "f": "0", "g": _TIME,
        "h": "0", "i": properties, "j": "0", "k": "false", "m": "false",
    }  # fmt: skip


def _filled_in(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a send that the generator leaves as they are."""
    unique = secrets.token_hex(8).upper()
    values = {_NUMBER: unique, _HEX: unique, _TIME: str(time.time_ns() // 1_000_000)}
    own = dict(fields)
    for mark, value in values.items():
        own = {name: text.replace(mark, value) for name, text in own.items()}
    return own


def _signed(fields: Mapping[str, str], opaque: int, body: bytes, account: Credentials) -> bytes:
    """Return a signed send. Nothing is filled in later, so a slot has several, each with its own key."""
    own = _filled_in(fields)
    own[ACCESS_KEY] = account.access_key
    return frame(RequestCode.SEND_MESSAGE_V2, {**own, SIGNATURE: sign(own, body, account.secret_key)}, opaque, body)


@contextmanager
def pulls(address: tuple[str, int], shape: Shape, backlog: Backlog) -> Iterator[Load]:
    """Connect and return the load of a number of consumers; each slot reads its own part of a queue.

    Slots that share a queue are of different groups, as consumers are: no commit goes back but at the end of a part.
    """
    slots = shape.connections * shape.window
    with connected(address, shape.connections) as sockets:
        if backlog.heartbeat:
            groups = [_group(backlog, rank) for rank in range(-(-slots // len(backlog.ranges)))]
            for number, connection in enumerate(sockets):
                for group in groups:
                    _subscribe(connection, backlog._replace(group=group), f"bench-{number}")
        rings = [
            [_pull_ring(backlog, index, connection * shape.window + index, slots) for index in range(shape.window)]
            for connection in range(shape.connections)
        ]
        yield Load("rocketmq", sockets, rings)


def _group(backlog: Backlog, rank: int) -> str:
    """Return the group of the consumers that read a part of each queue; `once` they share the messages out."""
    return backlog.group if backlog.once or not rank else f"{backlog.group}-{rank}"


def _pull_ring(backlog: Backlog, opaque: int, slot: int, slots: int) -> Ring:
    queue_id, first, end = backlog.ranges[slot % len(backlog.ranges)]
    offsets = range(first, end - backlog.batch + 1, backlog.batch)
    rank, sharing = slot // len(backlog.ranges), max(slots // len(backlog.ranges), 1)
    backlog = backlog._replace(group=_group(backlog, rank))
    own = offsets[len(offsets) * rank // sharing : len(offsets) * (rank + 1) // sharing]
    if not own:
        raise RuntimeError(f"queue {queue_id} has {end - first} messages: too few for {slots} slots")
    return [_pull(backlog, queue_id, offset, opaque) for offset in (own if backlog.once else own[:_PULL_RING])]


def _pull(backlog: Backlog, queue_id: int, offset: int, opaque: int) -> bytes:
    flags = (_PULL_FLAGS if backlog.commit else 0) | (0 if backlog.heartbeat else _CARRIED)
    fields = {
        "commitOffset": str(offset if backlog.commit else 0), "consumerGroup": backlog.group, "expressionType": "TAG",
        "maxMsgNums": str(backlog.batch), "queueId": str(queue_id), "queueOffset": str(offset),
        "subVersion": "0", "suspendTimeoutMillis": "15000", "sysFlag": str(flags), "topic": backlog.topic,
    }  # fmt: skip
    if not backlog.heartbeat:
        fields["subscription"] = backlog.tag
    if backlog.account is not None:
        fields[ACCESS_KEY] = backlog.account.access_key
        fields[SIGNATURE] = sign(fields, b"", backlog.account.secret_key)
    return frame(RequestCode.PULL_MESSAGE, fields, opaque)


@contextmanager
def heartbeats(address: tuple[str, int], shape: Shape, backlog: Backlog) -> Iterator[Load]:
    """Connect and return the load of consumers that say again and again that they are there."""
    with connected(address, shape.connections) as sockets:
        bodies = [_heartbeat(backlog, f"bench-{number}") for number in range(shape.connections)]
        rings = [[[frame(RequestCode.HEART_BEAT, {}, slot, body)] for slot in range(shape.window)] for body in bodies]
        yield Load("rocketmq", sockets, rings)


def _subscribe(connection: socket.socket, backlog: Backlog, client: str) -> None:
    ask(connection, RequestCode.HEART_BEAT, {}, _heartbeat(backlog, client))


def _heartbeat(backlog: Backlog, client: str) -> bytes:
    tags = [] if backlog.tag == "*" else [backlog.tag]
    codes = [tag_code(tag) for tag in tags]
    subscription = {
        "classFilterMode": False, "codeSet": codes, "expressionType": "TAG", "subString": backlog.tag,
        "subVersion": 0, "tagsSet": tags, "topic": backlog.topic,
    }  # fmt: skip
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "consumeType": "CONSUME_PASSIVELY", "groupName": backlog.group,
        "messageModel": "CLUSTERING", "subscriptionDataSet": [subscription], "unitMode": False,
    }  # fmt: skip
    return json.dumps({"clientID": client, "consumerDataSet": [consumer], "producerDataSet": []}).encode()


def ask(
    connection: socket.socket,
    code: int,
    fields: Mapping[str, str],
    body: bytes = b"",
    account: Credentials | None = None,
) -> dict[str, str]:
    """Send one request and return the fields of its answer; raise RuntimeError unless it is a success."""
    if account is not None:
        fields = {**fields, ACCESS_KEY: account.access_key}
        fields[SIGNATURE] = sign(fields, body, account.secret_key)
    connection.sendall(frame(code, fields, 0, body))
    while True:
        answer = decode(receive(connection, int.from_bytes(receive(connection, 4), "big")), typed=False)
        if answer.is_response:
            break
    if answer.code:
        raise RuntimeError(f"request {code} was answered with {answer.code}: {answer.remark}")
    return answer.ext_fields


def wait_for_slave(address: tuple[str, int], topic: str, seconds: float = 60.0) -> None:
    """Send to a SYNC_MASTER until its slave has a message too."""
    fields = _filled_in(_send_fields(topic, 0, "0" * 16))
    end = time.monotonic() + seconds
    with connected(address, 1) as (connection,):
        while True:
            try:
                ask(connection, RequestCode.SEND_MESSAGE_V2, fields, b"is the slave there?")
                return
            except RuntimeError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)


def ranges(
    address: tuple[str, int], topic: str, queues: int = QUEUES, account: Credentials | None = None
) -> list[tuple[int, int, int]]:
    """Return the offsets that the queues of a topic have, as (queue, first, end)."""
    with connected(address, 1) as (connection,):
        found = []
        for queue_id in range(queues):
            queue = {"topic": topic, "queueId": str(queue_id)}
            low, high = (
                int(ask(connection, code, queue, account=account)["offset"])
                for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
            )
            found.append((queue_id, low, high))
    return found
