"""Signed sends take the lane where access control would let them in, with the same answers, files and refusals."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pyromq.errors import RemoteProtocolError
from pyromq.protocol.acl import CODE, NONCE, SIGNATURE, TIME, Credentials, sign
from pyromq.protocol.command import FrameDecoder, decode
from tests.access.accounts_text import ACCOUNTS, ADMIN, FORGED, NOBODY, SHOP, write_accounts
from tests.broker.messages.test_plain_sends import (
    LANES,
    QUEUES,
    TOPICS,
    World,
    all_answers,
    all_worlds,
    cut_at,
    send_fields,
    send_frame,
)

MINE, OTHER = TOPICS
TEXT = ACCOUNTS.replace("topicPerms: [ ", f'topicPerms: [ "{MINE}=PUB", ')
NOW = "1700000000000"


def signed_frame(
    account: Credentials, body: bytes = b"hello", opaque: int = 7, flag: int = 0, nonce: str = "", **fields: str
) -> bytes:
    """Return a signed request; with a nonce, as our clients send it."""
    found = send_fields(**fields) | account.fields()
    if nonce:
        found |= {CODE: "310", NONCE: nonce, TIME: NOW}
    found[SIGNATURE] = sign(found, body, account.secret_key)
    return send_frame(body, opaque, flag, **found)


@pytest.fixture(params=LANES)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    write_accounts(tmp_path, TEXT)
    async with AsyncExitStack() as stack:
        world = await World(tmp_path / "store", request.param, home=tmp_path).open(stack)
        yield await warmed_up(world)


async def warmed_up(world: World) -> World:
    """Have the ordinary path learn the account and the topic, and reserve space."""
    world.read(signed_frame(SHOP, nonce="c.1") + signed_frame(SHOP, nonce="c.2"))
    await world.answers()
    assert world.taken == 0
    return world


async def told(world: World) -> list[tuple[int, int, str]]:
    """Return opaque, code and remark of the answers, in their order."""
    commands = [decode(one) for one in FrameDecoder().feed(await world.answers())]
    return [(command.opaque, command.code, (command.remark or "").rpartition("Exception: ")[2]) for command in commands]


async def test_a_signed_send_takes_the_lane(world: World) -> None:
    world.read(signed_frame(SHOP, opaque=1, nonce="c.3") + signed_frame(SHOP, opaque=2))
    assert await told(world) == [(1, 0, ""), (2, 0, "")]
    assert (world.taken, world.connection.is_proven) == (2, True)
    assert world.control is not None
    assert world.control._replays.last["c"] == 3


async def test_a_wrong_signature_in_the_middle_is_refused_and_counted(world: World) -> None:
    good = [signed_frame(SHOP, opaque=opaque, nonce=f"c.{opaque}") for opaque in (3, 4)]
    world.read(good[0] + signed_frame(FORGED, opaque=9) + good[1])
    answers = await told(world)
    assert sorted(answers) == [(3, 0, ""), (4, 0, ""), (9, 1, "Check signature failed for accessKey=test-shop")]
    assert [opaque for opaque, code, _ in answers if not code] == [3, 4]
    assert world.control is not None
    assert (world.taken, world.control.refusals.unknown, dict(world.connection.refusals)) == (2, 1, {1: 1})


async def test_a_topic_without_the_right_and_a_captured_send_are_refused(world: World) -> None:
    captured = signed_frame(SHOP, opaque=3, nonce="c.3")
    world.read(captured + signed_frame(SHOP, opaque=4, b=OTHER) + captured)
    assert (await told(world))[:2] == [
        (4, 1, "account 'test-shop' has no PUB right on topic 'payments'"),
        (3, 1, "the request was sent before"),
    ]
    assert world.taken == 1


async def test_a_send_to_a_retry_topic_needs_the_right_to_consume(world: World) -> None:
    world.read(signed_frame(SHOP, opaque=3, b="%RETRY%g") * 2)
    assert await told(world) == [(3, 1, "account 'test-shop' has no SUB right on group 'g'")] * 2


async def test_an_unsigned_send_is_refused_on_a_proven_connection(world: World) -> None:
    world.read(send_frame(opaque=5))
    assert await told(world) == [(5, 1, "No accessKey is configured")]


async def test_a_removed_account_is_out_at_once(world: World, tmp_path: Path) -> None:
    assert world.control is not None
    world.read(signed_frame(SHOP, opaque=3))
    write_accounts(tmp_path, TEXT.replace(SHOP.access_key, "somebody-else"))
    world.control.accounts.reload()
    assert world.connection.closed
    world.connect()
    world.read(signed_frame(SHOP, opaque=4))
    assert await told(world) == [(4, 1, "No acl config for test-shop")]


async def test_a_right_that_is_taken_away_counts_at_once_and_one_that_stays_takes_the_lane(
    world: World, tmp_path: Path
) -> None:
    assert world.control is not None
    world.read(signed_frame(ADMIN, opaque=3) + signed_frame(ADMIN, opaque=4) + signed_frame(ADMIN, opaque=5))
    await told(world)
    assert world.taken == 1
    write_accounts(tmp_path, TEXT.replace(f'"{MINE}=PUB"', f'"{MINE}=DENY"'))
    world.control.accounts.reload()
    world.connect()
    world.read(signed_frame(SHOP, opaque=6) + signed_frame(SHOP, opaque=7) + signed_frame(ADMIN, opaque=8))
    assert [code for _, code, _ in await told(world)] == [1, 1, 0]
    world.read(signed_frame(ADMIN, opaque=1) + signed_frame(ADMIN, opaque=2))
    assert [code for _, code, _ in await told(world)] == [0, 0]
    assert world.taken == 2


@pytest.mark.parametrize("rules", [{"trusts_white_list": True}, {"is_compatible": True}], ids=str)
async def test_where_white_lists_count_there_is_no_lane(tmp_path: Path, rules: dict[str, bool]) -> None:
    write_accounts(tmp_path, TEXT.replace("127.0.0.1", "10.0.0.1"))
    async with AsyncExitStack() as stack:
        world = await World(tmp_path / "store", "plain", home=tmp_path, rules=rules).open(stack)
        await warmed_up(world)
        world.read(signed_frame(SHOP, opaque=1))
        assert await told(world) == [(1, 0, "")]
        assert world.taken == 0


# --- whatever comes, and however it is cut ----------------------------------------------------------------------------

WHO = st.sampled_from([SHOP, SHOP, ADMIN, NOBODY, FORGED])
ODD = [
    {"i": "DELAY\x011"}, {"e": "7"}, {"k": "0"}, {"z": "?"}, {"SecurityToken": "t"}, {"i": "TAGS\x01é"},
    {"b": OTHER}, {"b": "missing"},
]  # fmt: skip
USUAL = st.builds(
    lambda queue_id, body, nonce: signed_frame(SHOP, body, 5, 0, nonce, b=MINE, e=str(queue_id)),
    st.integers(0, QUEUES - 1),
    st.binary(max_size=60),
    st.one_of(st.just(""), st.integers(1, 200).map("c.{}".format)),
)
FRAMES = st.builds(
    lambda who, body, opaque, flag, nonce, odd: signed_frame(who, body, opaque, flag, nonce, **odd),
    WHO,
    st.binary(max_size=60),
    st.integers(0, 1000),
    st.sampled_from([0, 0, 2]),
    st.sampled_from(["", "", "c.7", "d.1", "d.2", "c", "c.x", "c.300"]),
    st.sampled_from([{}, {}, *ODD]),
)
CHANGED_ACCOUNTS = [
    TEXT,
    TEXT.replace(SHOP.access_key, "somebody-else"),
    TEXT.replace(f'"{MINE}=PUB"', f'"{MINE}=DENY"'),
    TEXT.replace(f'"{MINE}=PUB"', f'"{MINE}=PUB", "{OTHER}=PUB"'),
    TEXT.replace(SHOP.secret_key, FORGED.secret_key),
]


@st.composite
def altered(draw: st.DrawFn) -> bytes:
    """Return a request with one bit of it changed after it was signed; it is still one.

    Else its connection ends, and it depends on the rounds which answers were written before.
    """
    frame = bytearray(draw(USUAL))
    at = draw(st.integers(frame.index(b'"extFields"'), len(frame) - 1))
    frame[at] ^= 1 << draw(st.integers(0, 6))
    try:
        decode(bytes(frame[4:]), typed=False)
    except RemoteProtocolError:
        assume(False)
    return bytes(frame)


def everything(world: World) -> dict[str, object]:
    assert world.control is not None
    refusals, numbers = world.control.refusals, list(world.control._replays.last.items())
    return world.state() | {
        "unknown": refusals.unknown,
        "forbidden": refusals.forbidden,
        "numbers": numbers,
        "proven": world.connection.is_proven,
        "closed": world.connection.closed,
    }


async def feed(worlds: list[World], home: Path, reads: list[bytes], accounts: str | None) -> None:
    """Have all worlds read the same, then with other accounts once more; they must not differ."""
    for world in worlds:
        world.control._replays.last.clear()  # type: ignore[union-attr]
    for text in (None, accounts, TEXT) if accounts else (None,):
        if text is not None:
            write_accounts(home, text)
        for world in worlds:
            assert world.control is not None
            if text is not None:
                world.control.accounts.reload()
            if world.connection.closed:
                world.connect()
        answers = [await all_answers(world, reads) for world in worlds]
        assert answers.count(answers[0]) == len(worlds)
        states = [everything(world) for world in worlds]
        assert states.count(states[0]) == len(worlds)


def test_signed_sends_leave_the_same_bytes_in_all_lanes(tmp_path: Path) -> None:
    write_accounts(tmp_path, TEXT)
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        worlds = runner.run(all_worlds(tmp_path, stack, home=tmp_path))

        @settings(max_examples=60, suppress_health_check=list(HealthCheck))
        @given(
            st.lists(st.one_of(USUAL, USUAL, USUAL, FRAMES, altered()), min_size=1, max_size=10),
            st.lists(st.integers(0, 10_000), max_size=3),
            st.sampled_from([None, None, *CHANGED_ACCOUNTS]),
        )
        def all_agree(frames: list[bytes], cuts: list[int], accounts: str | None) -> None:
            runner.run(feed(worlds, tmp_path, cut_at(b"".join(frames), cuts), accounts))

        all_agree()
        runner.run(feed(worlds, tmp_path, [signed_frame(SHOP) * 30], TEXT))
        assert [world.taken > 10 for world in worlds] == [bool(world.lane) for world in worlds]
        runner.run(stack.aclose())
