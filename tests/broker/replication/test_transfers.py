"""A slave's connection: notes one by one, then all transfers in their order, whatever ends it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pyromq.broker.replication.transfers import Transfers
from pyromq.clock import SystemClock
from pyromq.errors import CorruptRecord, RemoteProtocolError
from pyromq.protocol.ha import Transfer, encode_note, encode_transfer
from tests.remoting.helpers import FakeClock


class FakeTransport:
    """A transport that writes nothing."""

    def __init__(self) -> None:
        self.is_closed = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


def connected(clock: Any = None) -> Transfers:
    transfers = Transfers(clock or SystemClock(), 20.0)
    transfers.connection_made(cast(Any, FakeTransport()))
    return transfers


async def test_notes_come_first_and_what_follows_them_is_kept() -> None:
    transfers = connected()
    taken: list[Transfer] = []
    note = asyncio.create_task(transfers.note())
    await asyncio.sleep(0)
    transfers.data_received(encode_note(b"one")[:5])
    transfers.data_received(encode_note(b"one")[5:] + encode_note(b"two") + encode_transfer(7, b"abc"))
    assert [await note, await transfers.note()] == [b"one", b"two"]
    following = asyncio.create_task(transfers.follow(taken.extend))
    await asyncio.sleep(0)
    transfers.data_received(encode_transfer(10, b"de"))
    assert taken == [Transfer(7, b"abc"), Transfer(10, b"de")]
    transfers.connection_lost(None)
    await following


async def test_no_note_is_an_error() -> None:
    transfers = connected()
    transfers.data_received(encode_transfer(0))
    with pytest.raises(RemoteProtocolError, match="instead of an answer"):
        await transfers.note()
    transfers = connected()
    transfers.connection_lost(None)
    with pytest.raises(RemoteProtocolError, match="instead of an answer"):
        await transfers.note()


async def test_what_is_wrong_with_a_transfer_ends_the_following_and_nothing_more_is_taken() -> None:
    def refuse(batch: list[Transfer]) -> None:
        taken.extend(batch)
        raise CorruptRecord("no record")

    taken: list[Transfer] = []
    transfers = connected()
    following = asyncio.create_task(transfers.follow(refuse))
    await asyncio.sleep(0)
    for offset in (0, 1):
        transfers.data_received(encode_transfer(offset, b"x"))
    with pytest.raises(CorruptRecord):
        await following
    assert taken == [Transfer(0, b"x")]


async def test_a_broken_connection_and_nonsense_are_raised() -> None:
    transfers = connected()
    transfers.connection_lost(ConnectionResetError("reset"))
    with pytest.raises(ConnectionResetError):
        await transfers.follow(lambda _: None)
    transfers = connected()
    transfers.data_received(b"\xff" * 12)
    with pytest.raises(RemoteProtocolError, match="a master sends"):
        await transfers.note()


async def test_a_long_silence_ends_it_and_a_sign_of_life_prolongs_it() -> None:
    clock = FakeClock()
    transfers = connected(clock)
    following = asyncio.create_task(transfers.follow(lambda _: None))
    await clock.next_timer()
    clock.advance(19)
    transfers.data_received(encode_transfer(0))
    clock.advance(2)
    await clock.next_timer()
    assert not following.done()
    clock.advance(18)
    with pytest.raises(TimeoutError):
        await following


async def test_what_arrives_after_the_follower_was_cancelled_is_not_taken() -> None:
    taken: list[Transfer] = []
    transfers = connected()
    following = asyncio.create_task(transfers.follow(taken.extend))
    await asyncio.sleep(0)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    transfers.data_received(encode_transfer(0, b"x"))
    transfers.close()
    assert (taken, transfers.is_closing) == ([], True)
