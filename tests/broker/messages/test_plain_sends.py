"""Three ways of one message: the ordinary path, the plain lane and the native one leave the same bytes everywhere."""

from __future__ import annotations

import asyncio
import json
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyromq.access.access_control import AccessControl, AccessRules
from pyromq.broker.cleaning import Cleaning
from pyromq.broker.messages.send import BORN_HOST
from pyromq.broker.parts import Parts
from pyromq.broker.requests import REQUESTS
from pyromq.broker.sides.write_side import WriteSide
from pyromq.broker.signals import StoreSignals
from pyromq.broker.tables.topic_table import topic_config
from pyromq.lane import native
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import FrameDecoder, decode
from pyromq.protocol.messages.record import encode_host
from pyromq.remoting.connection import Connection
from pyromq.remoting.dispatch import Dispatcher
from pyromq.remoting.limits import Limits
from pyromq.remoting.outstanding import Deadlines
from pyromq.remoting.round import PlainLane
from pyromq.store.message_store import MessageStore
from pyromq.testing.clock import TestClock
from tests.broker.helpers import parts_over
from tests.store.helpers import FaultyFiles, QuickFiles, small_config

TOPICS, QUEUES = ("orders", "payments"), 3
LANES = ["plain", pytest.param("native", marks=pytest.mark.skipif(native("sends") is None, reason="not built"))]


class Wire:
    """The other end of a socket, as far as a connection asks for it."""

    def __init__(self) -> None:
        self.written = b""

    def get_extra_info(self, name: str) -> object:
        return {"peername": ("127.0.0.1", 5000), "sockname": ("127.0.0.1", 10911)}.get(name)

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def take(self) -> bytes:
        written, self.written = self.written, b""
        return written

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def abort(self) -> None: ...


class StillClock(TestClock):
    """Its date stands still, so that all worlds have the same."""

    __test__ = False

    def now_ms(self) -> int:
        return 1_700_000_000_000


class World:
    """A master without ports, and one connection; `lane` is what serves plain messages, "" for none.

    `home` is where its accounts are, if it has access control, and `rules` what counts beside them.
    """

    def __init__(
        self,
        root: Path,
        lane: str,
        files: FaultyFiles | None = None,
        home: Path | None = None,
        rules: Mapping[str, Any] = MappingProxyType({}),
        **changes: Any,
    ) -> None:
        self.root, self.lane = root, lane
        self.clock = StillClock()
        self.control: AccessControl | None = None
        if home is not None:
            self.control = AccessControl(AccessRules(home=home, **rules), REQUESTS, self.clock)
            self.control.accounts.load()
            self.control.refusals.free_failures = 1_000_000
        self.taken = self.batches = 0
        signals = StoreSignals()
        config = small_config(root, commit_log_file_size=16_384, max_message_size=4000, **changes)
        self.store = MessageStore(
            config,
            self.clock.now_ms,
            files or QuickFiles(),
            call_threadsafe=asyncio.get_running_loop().call_soon_threadsafe,
            on_durable=signals.durable,
            on_failure=signals.failed,
        )
        self._signals = signals

    async def open(self, stack: AsyncExitStack) -> World:
        stack.enter_context(self.store)
        self._note_keys()
        self.parts: Parts = parts_over(self.store, self.clock, self._signals)
        if self.control is not None:
            self.parts = replace(self.parts, access=self.control)
        for name in TOPICS:
            self.parts.topics.update(topic_config(name, QUEUES)).mark_saved()
            for queue_id in range(QUEUES):
                queue = self.store.new_queues.begin(name, queue_id)
                (made,) = self.store.new_queues.make([queue])
                self.store.new_queues.take_over(queue, made)
        with chosen_lane(self.lane):
            write = WriteSide(self.parts, self.store, cast(Cleaning, None))
        flow = cast(Any, write)._flow
        flow._wait_limit = flow._write_limit = float("inf")  # whatever else this machine does
        cast(Any, self.parts.round)._serving_time = float("inf")
        await stack.enter_async_context(write)
        sends = next(one for one in write.handlers if type(one).__name__ == "SendHandler")
        put = cast(Any, sends)._put_plain_batch if self.lane else lambda *_: None
        cast(Any, sends)._put_plain_batch = self._counted_batches(put)
        codes = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
        handlers = dict.fromkeys(codes, cast(Any, sends).send)
        lanes = {handler: self._counted(lane) for handler, lane in write.lanes.items()} if self.lane else {}
        guard = None if self.control is None else self.control.guard
        self._dispatcher = Dispatcher(cast(Any, handlers), lanes=lanes, guard=guard)
        self.connect()
        return self

    def connect(self) -> None:
        """Begin a new connection."""
        self.wire = Wire()
        dispatcher, is_guarded = self._dispatcher, self._dispatcher.is_guarded
        self.connection = Connection(
            round=self.parts.round,
            clock=self.clock,
            deadlines=Deadlines(self.clock),
            serve=dispatcher.serve_guarded if is_guarded else dispatcher.serve,
            on_open=lambda connection: None,
            limits=Limits(),
            throttles=True,
            serve_again=dispatcher.serve if is_guarded else None,
            find_lane=dispatcher.lane,
        )
        self.connection.connection_made(cast(Any, self.wire))
        self.connection.attributes[BORN_HOST] = encode_host("127.0.0.1", 5000)

    def _note_keys(self) -> None:
        """Keep what the index is told; a thread takes it from there when it likes."""
        index = cast(Any, self.store)._index
        add, self.keys = index.add, list[object]()

        def noted(messages: list[object], end: int) -> None:
            self.keys += messages
            add(messages, end)

        index.add = noted

    def _counted(self, lane: PlainLane) -> PlainLane:
        def counted(*args: Any) -> int:
            taken = lane.take(*args)
            self.taken += taken
            return taken

        return lane._replace(take=counted)

    def _counted_batches(self, put: Any) -> Any:
        def counted(*args: Any) -> Any:
            stored = put(*args)
            self.batches += stored is not None
            return stored

        return counted

    def read(self, *reads: bytes) -> None:
        """Receive bytes in some reads."""
        for data in reads:
            if data and not self.connection.closed:
                self.connection.data_received(data)

    async def answers(self) -> bytes:
        """Let the loop end its round, and those of requests that waited for their turn; return the answers."""
        connection, round = cast(Any, self.connection), cast(Any, self.parts.round)
        await asyncio.sleep(0)
        while connection._backlog or round._scheduled or round._waiting:  # noqa: ASYNC110 (passes of the loop)
            await asyncio.sleep(0)
        return self.wire.take()

    def state(self) -> dict[str, object]:
        """Return all that sends change, in memory and in files."""
        self.store.tails.write_all()  # else they are written when their time has come
        store, topics = cast(Any, self.store), self.parts.topics.by_name.values()
        files = {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for folder in ("commitlog", "consumequeue")
            for path in sorted((self.root / folder).rglob("*"))
            if path.is_file()
        }
        return {
            "files": files,
            "end": (store._log.end, store._log.position, store._log.reserved),
            "queues": {(q.topic, q.queue_id): (q.max_offset, q.next_offset, q.reserved) for q in store._queues},
            "keys": self.keys,
            "time": store._appender.group.last_timestamp_ms,
            "counted": {topic.name: (topic.puts, topic.put_bytes) for topic in topics},
            "refusals": dict(self.connection.refusals),
        }


@contextmanager
def chosen_lane(lane: str) -> Iterator[None]:
    before = os.environ.pop("PYROMQ_LANE", None)
    if lane == "plain":
        os.environ["PYROMQ_LANE"] = "plain"
    yield
    os.environ.pop("PYROMQ_LANE", None)
    if before is not None:
        os.environ["PYROMQ_LANE"] = before


def frame(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


def send_fields(**fields: str) -> dict[str, str]:
    """Return the ext fields of SEND_MESSAGE_V2."""
    usual = {"a": "g", "b": "orders", "c": "none", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0"}
    usual |= {"i": "UNIQ_KEY\x017F000001\x02WAIT\x01true\x02TAGS\x01paid", "j": "0", "k": "false", "m": "false"}
    return usual | fields


def send_header_text(opaque: int = 7, flag: int = 0, **fields: str) -> bytes:
    """Return the header of a request as Java's clients write it; the fields are those of SEND_MESSAGE_V2."""
    header = {"code": 310, "extFields": send_fields(**fields), "flag": flag, "language": "JAVA", "opaque": opaque}
    header |= {"serializeTypeCurrentRPC": "JSON", "version": 395}
    return json.dumps(header, separators=(",", ":")).encode()


def send_frame(body: bytes = b"hello", opaque: int = 7, flag: int = 0, **fields: str) -> bytes:
    """Return the whole request."""
    return frame(send_header_text(opaque, flag, **fields), body)


# --- what producers may send ------------------------------------------------------------------------------------------

PIECES = [
    "TAGS\x01a", "TAGS\x01", "TAGS\x01b c", "MYTAGS\x01x", "KEYS\x01k1 k2", "UNIQ_KEY\x017F01", "WAIT\x01true",
    "WAIT\x01false", "WAIT\x01trueish", "AWAIT\x01true", "WAIT\x01true\x02WAIT\x01false", "CLUSTER\x01x", "DELAY\x011",
    "DEL", "", "name\x01va\"l\\ue", "tab\x01\t/", "ümlaut\x01é", "nul\x01\x00", "TRAN_MS\x01true", "x" * 300,
]  # fmt: skip
NUMBERS = st.sampled_from(["0", "1", "-1", "2147483647", "-2147483648", "7"])
PROPERTIES = st.lists(st.sampled_from(PIECES), max_size=5).map("\x02".join)
FIELDS = st.fixed_dictionaries(
    {"b": st.sampled_from([*TOPICS, *TOPICS, "missing"]), "e": st.sampled_from(["0", "1", "2", "3"]), "i": PROPERTIES},
    optional={
        "f": st.sampled_from(["0", "1", "2", "8", "48"]),
        "g": st.sampled_from(["0", "-5", "9223372036854775807"]),
        "h": NUMBERS,
        "j": st.sampled_from(["0", "3"]),
        "k": st.sampled_from(["true", "false"]),
        "l": NUMBERS,
        "m": st.sampled_from(["false", "false", "true"]),
        "n": st.just("broker-a"),
        "Signature": st.just("x"),
    },
)
SENDS = st.builds(
    lambda fields, body, opaque, flag: send_frame(body, opaque, flag, **fields),
    FIELDS,
    st.one_of(st.binary(max_size=40), st.integers(0, 4100).map(lambda size: b"b" * size)),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from([0, 0, 0, 2]),
)


def changed(old: bytes, new: bytes) -> bytes:
    """Return a request whose header is written in another way."""
    header = send_header_text()
    assert header.count(old) == 1
    return frame(header.replace(old, new), b"odd")


ODD = st.sampled_from(
    [
        frame(b'{"code":35,"flag":0,"opaque":1}'),
        changed(b'"opaque":7', b'"opaque": 7'),
        changed(b'"k":"false"', b'"k":"false","e":"1"'),
        changed(b'"e":"0"', b'"e":0'),
        changed(b'"e":"0"', b'"e":"00"'),
        changed(b'"e":"0"', b'"e":"1.5"'),
        changed(b'"j":"0"', b'"j":"often"'),
        changed(b'"k":"false"', b'"k":"1"'),
        changed(b'"d":"4",', b""),
        changed(b'"language":"JAVA"', b'"language":"J\\"V"'),
        changed(b'"language":"JAVA"', b'"language":12'),
        changed(b'"a":"g"', b'"a":"\\u00e9"'),
        changed(b'"b":"orders"', b'"b":"\\u006frders"'),
        changed(b'"flag":0', b'"flag":0,"flag":2'),
        changed(b'"flag":0', b'"remark":null'),
        changed(b'"code":310', b'"version":1,"code":310'),
        changed(b"paid", b"p\\u0041id"),
        changed(b"paid", b"p\\u00e9id"),
        changed(b"paid", b"p\\n\\/id"),
    ]
)
USUAL = st.builds(
    lambda topic, queue_id, size, opaque: send_frame(b"b" * size, opaque, b=topic, e=str(queue_id)),
    st.sampled_from(TOPICS),
    st.integers(0, QUEUES - 1),
    st.integers(0, 2000),
    st.integers(0, 1000),
)
STREAMS = st.lists(st.one_of(USUAL, USUAL, SENDS, ODD), min_size=1, max_size=12)


async def all_worlds(root: Path, stack: AsyncExitStack, **changes: Any) -> list[World]:
    """Return a world for each way."""
    lanes = ["", "plain", *(["native"] if native("sends") is not None else [])]
    return [await World(root / (lane or "ordinary"), lane, **changes).open(stack) for lane in lanes]


def test_all_lanes_leave_the_same_bytes(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        worlds = runner.run(all_worlds(tmp_path, stack))

        @settings(max_examples=60, suppress_health_check=list(HealthCheck))
        @given(STREAMS, st.lists(st.integers(0, 40_000), max_size=4), st.integers(0, 3))
        def feed(frames: list[bytes], cuts: list[int], late: int) -> None:
            data = b"".join(frames)
            reads = cut_at(data, cuts)
            answers = [runner.run(all_answers(world, reads[:late], reads[late:])) for world in worlds]
            assert answers.count(answers[0]) == len(worlds)
            states = [world.state() for world in worlds]
            assert states.count(states[0]) == len(worlds)

        feed()
        assert [world.taken > 10 for world in worlds] == [bool(world.lane) for world in worlds]
        runner.run(stack.aclose())


def cut_at(data: bytes, cuts: list[int]) -> list[bytes]:
    """Return bytes in as many reads as there are cuts, and one more."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


async def all_answers(world: World, *rounds: list[bytes]) -> list[bytes]:
    """Return all answers; their order depends on which requests share a round, as the time says."""
    heard = b""
    for reads in rounds:
        world.read(*reads)
        heard += await world.answers()
    return sorted(map(bytes, FrameDecoder().feed(heard)))


# --- what stands between a send and the log ---------------------------------------------------------------------------


@pytest.fixture(params=LANES)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    async with AsyncExitStack() as stack:
        world = await World(tmp_path / "store", request.param, FaultyFiles(flushes=False)).open(stack)
        yield await warmed_up(world)


async def warmed_up(world: World) -> World:
    """Have the ordinary path reserve space by the first message."""
    world.read(send_frame())
    await world.answers()
    assert world.taken == 0
    return world


def codes(answers: bytes) -> dict[int, int]:
    """Return the codes of answers by opaque."""
    commands = [decode(one) for one in FrameDecoder().feed(answers)]
    assert len({command.opaque for command in commands}) == len(commands)
    return {command.opaque: command.code for command in commands}


async def test_a_plain_message_takes_the_lane(world: World) -> None:
    world.read(send_frame(opaque=1) + send_frame(opaque=2))
    assert codes(await world.answers()) == {1: 0, 2: 0}
    assert world.taken == 2


async def test_reads_that_follow_in_a_round_are_taken_whole(world: World) -> None:
    round, sends = world.parts.round, [send_frame(opaque=number) for number in range(8)]
    world.read(sends[0], sends[1] + sends[2] + sends[3][:50])
    assert (world.taken, round.take_read is None) == (1, False)
    world.read(sends[3][50:])
    assert round.take_read is None, "a frame of two reads is served as usual"
    world.read(sends[4], sends[5] + send_frame(opaque=8, i="DELAY\x013"))
    assert (world.taken, round.take_read) == (2, None), "what is not plain ends it"
    world.read(sends[6])
    round.serves_until = 0.0
    world.read(sends[7])
    assert cast(Any, world.connection)._backlog, "the time of this round is over"
    assert codes(await world.answers()) == dict.fromkeys(range(9), 0)
    assert round.take_read is None


async def test_a_message_of_our_producer_without_keys_takes_the_lane(world: World) -> None:
    sent = "WAIT\x01true\x02TAGS\x01paid\x02UNIQ_KEY\x017F"
    world.read(send_frame(opaque=1, i=sent) + send_frame(opaque=2, i=sent.replace("TAGS", "WAIT")))
    assert codes(await world.answers()) == {1: 0, 2: 0}
    assert world.taken == 1


async def test_a_write_that_fails_refuses_each_of_its_messages(world: World) -> None:
    world.read(send_frame(opaque=1) + send_frame(opaque=2))
    files = cast(FaultyFiles, cast(Any, world.store)._files)
    files.fail = lambda name, number: 5 if name == "pwrite" else None
    assert codes(await world.answers()) == {1: 14, 2: 14}
    assert dict(world.connection.refusals) == {14: 2}
    files.fail = lambda name, number: None
    world.read(send_frame(opaque=3))  # the store writes no more
    assert codes(await world.answers()) == {3: 14}
    assert world.taken == 2


async def test_paused_writes_and_a_full_disk_are_told(world: World) -> None:
    world.store.cleaner.refuses_messages = True
    world.read(send_frame(opaque=1))
    assert codes(await world.answers()) == {1: 14}
    world.store.cleaner.refuses_messages = False
    world.read(send_frame(opaque=2))
    assert codes(await world.answers()) == {2: 0}
    assert world.taken == 1


async def test_puts_from_both_sides_share_a_round(world: World) -> None:
    """Delays, transactions and send-backs put messages between those of the lane: each offset is given once."""
    for number in range(0, 3000, 3):
        world.read(send_frame(opaque=number))
        world.read(send_frame(opaque=number + 1, i="CLUSTER\x01x\x02KEYS\x01k"))  # the ordinary path
        world.read(send_frame(opaque=number + 2))
        if number % 7 == 0:
            await world.answers()
    await world.answers()
    queue = cast(Any, world.store)._queues.find("orders", 0)
    assert (queue.next_offset, queue.max_offset) == (3001, 3001)
    assert 1000 < world.taken <= 2000
    offset = 0
    while offset < 3001:
        result = world.store.get("orders", 0, offset, 32)
        assert result.next_offset > offset
        offset = result.next_offset


async def test_a_topic_that_is_deleted_is_gone_at_once(world: World) -> None:
    world.read(send_frame(opaque=1, c="none"))
    world.parts.topics.remove("orders")
    world.read(send_frame(opaque=2, c="none"))
    assert codes(await world.answers()) == {1: 0, 2: 17}


@pytest.mark.parametrize("lane", LANES)
async def test_answers_wait_for_the_flush(tmp_path: Path, lane: str) -> None:
    """A flush that takes too long is answered with FLUSH_DISK_TIMEOUT, for each message of the lane."""
    async with AsyncExitStack() as stack:
        world = await World(tmp_path, lane, flush_disk_type="SYNC_FLUSH").open(stack)
        flusher = cast(Any, world.store).flusher
        wake, flusher.wake = flusher.wake, lambda: None  # the disk is slow
        await warmed_up(world)
        world.read(send_frame(opaque=1) + send_frame(opaque=2))
        assert await world.answers() == b""
        assert world.taken == 2
        await world.clock.advance_async(seconds=6)
        assert codes(await world.answers()) == {1: 10, 2: 10, 7: 10}
        flusher.wake = wake
        wake()
