"""A batch by the ordinary path, the plain lane and the native one: the same bytes everywhere."""

from __future__ import annotations

import asyncio
import struct
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyromq.lane import native
from pyromq.protocol.command import FrameDecoder, decode
from pyromq.protocol.messages.batch import BatchElement, encode_batch
from pyromq.remoting import slices
from tests.broker.messages.test_plain_sends import (
    PIECES,
    QUEUES,
    TOPICS,
    World,
    codes,
    frame,
    send_frame,
    send_header_text,
)
from tests.store.helpers import FaultyFiles

LANES = ["plain", pytest.param("native", marks=pytest.mark.skipif(native("batches") is None, reason="not built"))]


def batch_frame(body: bytes, opaque: int = 7, flag: int = 0, **fields: str) -> bytes:
    """Return the request that sends a batch; its header has the properties that all messages get."""
    header = send_header_text(opaque, flag, **({"i": "WAIT\x01true", "m": "true"} | fields))
    return frame(header.replace(b'"code":310', b'"code":320'), body)


def batch(*bodies: bytes, properties: bytes = b"UNIQ_KEY\x017F\x02WAIT\x01true\x02TAGS\x01paid") -> bytes:
    return encode_batch(BatchElement(0, body, properties) for body in bodies)


ELEMENTS = st.builds(
    BatchElement,
    st.sampled_from([0, 1, -1, 2**31 - 1]),
    st.one_of(st.binary(max_size=30), st.integers(0, 4000).map(lambda size: b"b" * size)),
    st.lists(st.sampled_from([*PIECES, "y" * 16_000]), max_size=3).map(lambda pieces: "\x02".join(pieces).encode()),
)
USUAL = st.lists(st.binary(max_size=900), min_size=1, max_size=6).map(lambda bodies: batch(*bodies))
BODIES = st.one_of(USUAL, USUAL, USUAL, st.lists(ELEMENTS, max_size=5).map(encode_batch))


@st.composite
def _bodies(draw: st.DrawFn) -> bytes:
    """Return the body of a batch, now and then with one length that lies, or cut."""
    body = draw(BODIES)
    if draw(st.sampled_from([True, True, True, True, False])) or len(body) < 4:
        return body
    place = draw(st.sampled_from([0, 16, len(body) - 4]))
    lie = struct.pack(">i", draw(st.sampled_from([-1, 0, 1, 2**31 - 1, len(body), len(body) - 1])))
    return draw(st.sampled_from([body[:-1], body + b"\0", body[:place] + lie + body[place + 4 :]]))


BATCHES = st.builds(
    lambda body, topic, queue_id, opaque, flag, fields: batch_frame(
        body, opaque, flag, b=topic, e=str(queue_id), **fields
    ),
    _bodies(),
    st.sampled_from(TOPICS),
    st.integers(0, QUEUES),  # the last does not exist
    st.integers(0, 1000),
    st.sampled_from([0, 0, 0, 2]),
    st.one_of(
        st.just({}),
        st.fixed_dictionaries(
            {},
            optional={
                "i": st.sampled_from(["", "WAIT\x01false", "WAIT\x01true\x02", "x\x01y", "DELAY\x012", "TAGS\x01all"]),
                "f": st.sampled_from(["0", "1", "4", "8", "48"]),
                "h": st.sampled_from(["0", "9"]),
                "j": st.sampled_from(["0", "3"]),
            },
        ),
    ),
)
SENDS = st.builds(lambda size, topic: send_frame(b"s" * size, b=topic), st.integers(0, 800), st.sampled_from(TOPICS))
STREAMS = st.lists(st.one_of(BATCHES, BATCHES, SENDS), min_size=1, max_size=6)


@pytest.fixture(autouse=True)
def whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the ordinary path store a batch in one go: on a slow machine, later requests would overtake it."""
    monkeypatch.setattr(slices, "SLICE", float("inf"))


async def _worlds(root: Path, stack: AsyncExitStack) -> list[World]:
    lanes = ["", "plain", *(["native"] if native("batches") is not None else [])]
    return [await World(root / (lane or "ordinary"), lane).open(stack) for lane in lanes]


async def _answers(world: World, reads: list[bytes]) -> list[bytes]:
    world.read(*reads)
    return sorted(map(bytes, FrameDecoder().feed(await world.answers())))


def test_all_lanes_leave_the_same_bytes(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        worlds = runner.run(_worlds(tmp_path, stack))

        @settings(max_examples=60, suppress_health_check=list(HealthCheck))
        @given(STREAMS)
        def feed(frames: list[bytes]) -> None:
            answers = [runner.run(_answers(world, frames)) for world in worlds]
            assert answers.count(answers[0]) == len(worlds)
            states = [world.state() for world in worlds]
            assert states.count(states[0]) == len(worlds)

        feed()
        last = [runner.run(_answers(world, [batch_frame(batch(b"plain", b""))])) for world in worlds]
        assert last.count(last[0]) == len(worlds)
        assert [world.batches > 0 for world in worlds] == [bool(world.lane) for world in worlds]
        runner.run(stack.aclose())


@pytest.fixture(params=LANES)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    async with AsyncExitStack() as stack:
        yield await World(tmp_path / "store", request.param, FaultyFiles(flushes=False)).open(stack)


async def test_a_plain_batch_takes_the_lane_and_has_an_id_for_each_message(world: World) -> None:
    world.read(batch_frame(batch(b"a", b"b"), opaque=1) + batch_frame(batch(b"c"), opaque=2))
    first, second = (decode(bytes(one)) for one in FrameDecoder().feed(await world.answers()))
    assert [first.ext_fields["queueOffset"], second.ext_fields["queueOffset"]] == ["0", "2"]
    ids = [*first.ext_fields["msgId"].split(","), *second.ext_fields["msgId"].split(",")]
    assert (len(set(ids)), world.batches) == (3, 2)


async def test_a_write_that_fails_refuses_the_batch(world: World) -> None:
    world.read(batch_frame(batch(b"a", b"b"), opaque=1))
    files = cast(FaultyFiles, cast(Any, world.store)._files)
    files.fail = lambda name, number: 5 if name == "pwrite" else None
    assert codes(await world.answers()) == {1: 14}
    files.fail = lambda name, number: None
    world.read(batch_frame(batch(b"a", b"b"), opaque=2))  # the store writes no more
    assert codes(await world.answers()) == {2: 14}
    assert world.batches == 1


async def test_a_disk_without_room_refuses_the_batch_and_takes_it_later(world: World) -> None:
    files = cast(FaultyFiles, cast(Any, world.store)._files)
    files.fail = lambda name, number: 28 if name in ("fallocate", "posix_fallocate") else None
    world.read(batch_frame(batch(b"a" * 3000), opaque=1))
    assert codes(await world.answers()) == {1: 14}
    files.fail = lambda name, number: None
    world.read(batch_frame(batch(b"a" * 3000), opaque=2))
    assert codes(await world.answers()) == {2: 0}


async def test_a_oneway_batch_is_stored_without_an_answer(world: World) -> None:
    world.read(batch_frame(batch(b"a", b"b"), flag=2))
    assert await world.answers() == b""
    assert (world.batches, world.parts.topics.by_name["orders"].puts) == (1, 2)
