"""A broker with few descriptors, and strangers who take all that they get."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyromq import Message, Producer

LIMIT = 400
SERVER = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (200, {LIMIT}))
sys.argv = ["pyromq", *sys.argv[1:]]
from pyromq.cli.main import main
main()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Start `pyromq up`; give the addresses of its name server and broker."""
    options = ["--data", str(tmp_path), "--namesrv-port", "0", "--port", "0", "--console-port", "0"]
    settings = ["flushDiskType=SYNC_FLUSH", "mappedFileSizeCommitLog=65536", "maxMessageSize=32768"]
    options += [word for setting in settings for word in ("--set", setting)]
    with (tmp_path / "errors").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, "up", *options], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    words = process.stdout.readline().split()
    assert "namesrv" in words, (tmp_path / "errors").read_text()
    yield words[words.index("namesrv") + 1], words[words.index("broker") + 1]
    process.terminate()
    assert process.wait(30) == 0, (tmp_path / "errors").read_text()
    assert "too many open files" not in (tmp_path / "errors").read_text().lower()


async def test_idle_connections_do_not_stop_a_broker(server: tuple[str, str]) -> None:
    """The log rolls and topics are created meanwhile: each needs a descriptor for a moment."""
    namesrv, broker = server
    host, _, port = broker.rpartition(":")
    async with Producer("p", namesrv) as producer:
        await producer.send(Message(topic="before", body=b"x"))
        with ExitStack() as stack:
            for _ in range(2 * LIMIT):  # most of them are refused at once
                stack.enter_context(socket.create_connection((host, int(port))))
            await asyncio.sleep(0)
            for number in range(20):
                result = await producer.send(Message(topic=f"topic{number % 5}", body=bytes(20_000)))
                assert result.queue.topic == f"topic{number % 5}"
