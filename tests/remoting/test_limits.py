"""What all connections of a process may take together of its descriptors."""

from __future__ import annotations

import logging
import resource
import subprocess
import sys

import pytest

from pyromq.remoting import limits
from pyromq.remoting.limits import ConnectionRoom
from pyromq.testing import eventually

from .helpers import ECHO, FakeClock, RawPeer, numbered, serve


@pytest.mark.parametrize(("limit", "most"), [(1024, 564), (20_000, 15_744), (256, 64)])
def test_connections_leave_descriptors_for_files(limit: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "descriptor_limit", lambda: limit)
    room = ConnectionRoom()
    assert room.most == most
    before = room.left_for_files
    while room.enter():
        pass
    assert room.taken == most
    assert 0 < room.left_for_files <= before
    room.leave()
    assert room.enter()


def test_files_hear_when_connections_take_their_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "descriptor_limit", lambda: 10_000)
    room = ConnectionRoom()
    heard: list[int] = []
    room.listeners.append(heard.append)
    for _ in range(130):
        room.enter()
    for _ in range(130):
        room.leave()
    assert heard == [9680, 9616, 9616, 9680, 9744]


async def test_a_server_refuses_connections_beyond_the_room_of_its_process(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    room = ConnectionRoom()
    monkeypatch.setattr(ConnectionRoom, "most", 2)
    async with serve(clock, room=room) as first, serve(clock, room=room) as second:
        peers = [await RawPeer.connect(first.port), await RawPeer.connect(second.port)]
        for peer in peers:
            await peer.ask(numbered(ECHO, 1))
        for server in (first, second, first):
            assert await (await RawPeer.connect(server.port)).is_closed()
        await peers[0].ask(numbered(ECHO, 2))
        peers[1].close()
        await eventually(lambda: room.taken == 1)
        assert (await (await RawPeer.connect(first.port)).ask(numbered(ECHO, 3))).opaque == 3
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len([text for text in warnings if "all that `ulimit -n` leaves room for" in text]) == 2  # one of each server


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    code = (
        "import resource; from pyromq.remoting.limits import raise_descriptor_limit, descriptor_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))\n"
        "print(raise_descriptor_limit(), descriptor_limit(), raise_descriptor_limit())"
    )
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 300
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["300"] * 3
