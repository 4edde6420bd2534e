"""The lane for sends: from the frame of a plain message to its record, entry, keys and answer.

A message is plain if nothing about it is rare: a JSON header that begins with the code of SEND_MESSAGE_V2, a topic that
accepts plain sends, a queue that has room, properties without delays and transactions, IPv4 hosts, and a record that
fits where the log has space reserved. Where there is access control, it is also signed as those before it (callers.py).
Whatever is not plain is left to the broker's ordinary path, in order: `take` stops there. Nothing that the lane leaves
alone has changed anything.

**The lane owns nothing.** The position of the log, the next offset of a queue and the open group belong to the store,
which others write to as well: delays, transactions, send-backs. `take` reads them there, changes them there, and keeps
no copy when it returns. So there is nothing to give back before somebody else puts a message, nor to forget when a
topic changes.

`PlainSendLane` is what is right; `c/_sends.c` does the same in C. `tests/lane/` compares the two.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple, Protocol
from zlib import crc32

from pyromq.lane import native
from pyromq.lane.callers import Caller, is_signed, note_number, send_number
from pyromq.protocol.codes import ONEWAY_FLAG, RequestCode
from pyromq.protocol.frame_templates import answer_pieces, stored_answer
from pyromq.protocol.headers.json_header import SendV2, SignedSendJson, read_hot_json, read_signed_json
from pyromq.protocol.headers.signed_send import SignedSendHeader
from pyromq.protocol.messages.properties import MAX_PROPERTIES_LENGTH
from pyromq.protocol.messages.record import HEAD_SIZE, MESSAGE_MAGIC, TRANSACTION_MASK, V4_HEAD, V6_FLAGS
from pyromq.protocol.tag_filter import tag_code
from pyromq.protocol.unreadable import UNREADABLE

Frames = Sequence[bytes | memoryview]

_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_BEGIN: Final = b'{"code":%d,' % _SEND
_BLANK_SIZE: Final = 8
LONGEST_READ: Final = (64 << 10) - 4
"""The longest frame that `take_read` takes: no port refuses such frames (`pyromqMaxFrameBytes`)."""
_ENTRY: Final = struct.Struct(">qiq")
_WORD: Final = struct.Struct(">I")
_SHORT: Final = struct.Struct(">h")


class Log(Protocol):
    """The log, as far as a record joins its open group."""

    position: int
    reserved: int
    parts: list[bytes]


class Queue(Protocol):
    """A queue that gets an entry."""

    topic: str
    topic_name: bytes
    next_offset: int
    reserved: int


class Group(Protocol):
    """The messages that will be written together."""

    entries: dict[Any, list[bytes]]
    firsts: dict[Any, int]
    keys: list[str | bytes | int]
    last_timestamp_ms: int


class OpenGroups(Protocol):
    """What has the open group."""

    group: Any


class SendTopic(Protocol):
    """A topic, with what a send asks of it."""

    name: str
    accepts_plain_sends: bool
    queues: int
    sys_flag: int
    puts: int
    put_bytes: int


class SendPlace(NamedTuple):
    """Where plain messages go, and within which limits."""

    log: Log
    groups: OpenGroups
    topics: Mapping[str, SendTopic]
    queues: Mapping[str, Mapping[int, Queue]]
    store_host: bytes
    cluster: str
    max_header: int
    max_body: int
    max_record: int
    has_index: bool


class SendLane(Protocol):
    """Takes plain messages."""

    def take(
        self, frames: Frames, first: int, most: int, born_host: bytes, now_ms: int, caller: Caller | None
    ) -> tuple[int, bytes]:
        """Let plain messages join the open group, from a frame on, up to the first that is not plain.

        With a `caller` only its own, signed: others are not plain.
        Return how many did, at most `most`, and the frames of their answers, which are true once the group is stored.
        """

    def take_read(self, data: bytes, most: int, born_host: bytes, now_ms: int) -> tuple[int, bytes]:
        """Do as `take` does with the first frames of a read, LONGEST_READ bytes each at most.

        Return how many of its bytes they are, and the answers.
        """


def send_lane(place: SendPlace) -> SendLane:
    """Return the lane that this process uses."""
    module = native("sends")
    return PlainSendLane(place) if module is None else native_lane(module, place)


def native_lane(module: ModuleType, place: SendPlace) -> SendLane:
    """Return the lane in C."""
    lane: SendLane = module.NativeSendLane(
        place.log,
        place.groups,
        place.topics,
        place.queues,
        place.store_host,
        _suffix(place.cluster).encode(),
        answer_pieces(),
        place.max_header,
        place.max_body,
        place.max_record,
        place.has_index,
    )
    return lane


def _suffix(cluster: str) -> str:
    return f"\x02CLUSTER\x01{cluster}"


def plain_properties(sent: str, suffix: str) -> tuple[bytes, int] | None:
    """Return the text of properties that is stored and the hash of the tag; None if something rare is in it.

    WAIT goes, and `suffix` is added. That happens on every send, so the text is not taken apart: a few searches tell
    that nothing rare is in it, and two cuts do the rest (0.6 µs, where taking it apart and writing it costs 3 µs).
    """
    if "DEL" in sent or "TRAN_MSG" in sent or "CLUSTER" in sent:  # perhaps DELAY, TIMER_DELAY_SEC, __STARTDELIVERTIME …
        return None
    if sent.startswith("WAIT\x01true\x02"):  # as our producers write messages without keys
        sent = sent[10:]
        if not sent or sent[0] == "\x02" or "WAIT\x01" in sent:
            return None
    else:
        head, found, tail = sent.partition("\x02WAIT\x01true")
        if found and tail[:1] in ("", "\x02"):
            sent = head + tail
        elif "WAIT\x01" in sent:  # it says false, or belongs to another name
            return None
    if sent[-1:] == "\x02":  # as written by RocketMQ up to 4.9.0
        sent = sent[:-1]
    _, found, tail = sent.rpartition("\x02TAGS\x01")
    if found:
        code = tag_code(tail.partition("\x02")[0])
    elif sent.startswith("TAGS\x01"):
        code = tag_code(sent[5:].partition("\x02")[0])
    else:
        code = 0
    return (sent + suffix).encode(), code


class PlainSendLane:
    """The lane in Python."""

    def __init__(self, place: SendPlace) -> None:
        self._log = place.log
        self._groups = place.groups
        self._find_topic = place.topics.get
        self._find_queues = place.queues.get
        self._store_host = place.store_host
        self._id_prefix = place.store_host.hex().upper().encode()
        self._suffix = _suffix(place.cluster)
        self._max_header = place.max_header
        self._max_body = place.max_body
        self._max_record = place.max_record
        self._has_index = place.has_index

    def take(
        self, frames: Frames, first: int, most: int, born_host: bytes, now_ms: int, caller: Caller | None
    ) -> tuple[int, bytes]:
        """Let plain messages join the open group."""
        if len(born_host) != 8 or len(self._store_host) != 8:
            return 0, b""
        answers: list[bytes] = []
        for frame in frames[first : first + most]:
            answer = self._take_one(frame, born_host, now_ms, caller)
            if answer is None:
                break
            answers.append(answer)
        return len(answers), b"".join(answers)

    def take_read(self, data: bytes, most: int, born_host: bytes, now_ms: int) -> tuple[int, bytes]:
        """Let plain messages join the open group, from the bytes of a read."""
        frames: list[bytes] = []
        at = 0
        while len(data) - at > _WORD.size and len(frames) < most:
            length: int = _WORD.unpack_from(data, at)[0]
            end = at + _WORD.size + length
            if end > len(data) or length > LONGEST_READ:
                break
            frames.append(data[at + _WORD.size : end])
            at = end
        count, answers = self.take(frames, 0, most, born_host, now_ms, None)
        return sum(_WORD.size + len(frame) for frame in frames[:count]), answers

    def _take_one(
        self, frame: bytes | memoryview, born_host: bytes, now_ms: int, caller: Caller | None
    ) -> bytes | None:
        # One function with few helpers: calls would cost as much as the work.
        if type(frame) is not bytes or not frame.startswith(_BEGIN, 4):
            return None
        header_end = 4 + _WORD.unpack_from(frame)[0]
        if header_end > len(frame) or header_end > self._max_header + 4:  # a binary header seems longer than that
            return None
        try:
            head = read_hot_json(frame[4:header_end]) if caller is None else read_signed_json(frame[4:header_end])
        except UNREADABLE:
            return None
        if not isinstance(head, SendV2 | SignedSendJson) or head.code != _SEND or head.flag not in (0, ONEWAY_FLAG):
            return None
        sent = head.ext_fields
        topic = self._find_topic(sent.topic)
        queue_id = sent.queue_id
        if topic is None or not topic.accepts_plain_sends or sent.batch or not 0 <= queue_id < topic.queues:
            return None
        queues = self._find_queues(topic.name)
        queue = None if queues is None else queues.get(queue_id)
        sys_flag = (sent.sys_flag | topic.sys_flag) & ~V6_FLAGS
        if queue is None or sys_flag & TRANSACTION_MASK or not sent.properties:
            return None
        plain = plain_properties(sent.properties, self._suffix)
        if plain is None:
            return None
        properties, code = plain
        body, name, log = frame[header_end:], queue.topic_name, self._log
        connection, number = "", 0
        if isinstance(sent, SignedSendHeader) and caller is not None:
            found = send_number(caller, sent, now_ms) if is_signed(caller, sent, body) else None
            if found is None:
                return None
            connection, number = found
        body_length, properties_length = len(body), len(properties)
        size = HEAD_SIZE + 3 + body_length + len(name) + properties_length
        position, queue_offset = log.position, queue.next_offset
        if (
            body_length > self._max_body
            or size > self._max_record
            or properties_length > MAX_PROPERTIES_LENGTH
            or position + size > log.reserved - _BLANK_SIZE
            or (queue_offset + 1) * _ENTRY.size > queue.reserved
        ):
            return None
        log.parts += (
            V4_HEAD.pack(
                size,
                MESSAGE_MAGIC,
                crc32(body) & 0x7FFFFFFF,
                queue_id,
                sent.flag,
                queue_offset,
                position,
                sys_flag,
                sent.born_timestamp,
                born_host,
                now_ms,
                self._store_host,
                sent.reconsume_times or 0,
                0,
                body_length,
            ),
            body,
            bytes((len(name),)) + name + _SHORT.pack(properties_length) + properties,
        )
        log.position = position + size
        group = self._groups.group
        entries = group.entries.get(queue)
        if entries is None:
            entries = group.entries[queue] = []
            group.firsts[queue] = queue_offset
        entries.append(_ENTRY.pack(position, size, code))
        queue.next_offset = queue_offset + 1
        if self._has_index:
            group.keys += (topic.name, properties, position, now_ms)
        group.last_timestamp_ms = now_ms
        topic.puts += 1
        topic.put_bytes += size
        if number and caller is not None:
            note_number(caller, connection, number)
        if head.flag:
            return b""
        return stored_answer(head.opaque, 0, queue_id, queue_offset, b"%b%016X" % (self._id_prefix, position))
