"""SIGTERM: who is told, and what a consumer does then."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.push.termination import on_sigterm
from pyromq.client.send.producer import Producer
from pyromq.protocol.messages.message import Message
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import committed

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM"),
    pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="handlers are called there"),
]


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    """Begin with what a program begins with, whatever other tests of this process have left."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)


def terminate() -> None:
    signal.raise_signal(signal.SIGTERM)  # to this thread: kill() may choose another one, which tells Python later


def test_all_who_wait_are_told_and_then_it_ends_the_process_again() -> None:
    told: list[str] = []
    with on_sigterm(lambda: told.append("first")):
        with on_sigterm(lambda: told.append("second")):
            terminate()
            assert told == ["first", "second"]
        terminate()
        assert told == ["first", "second", "first"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_handler_of_the_program_stays() -> None:
    told: list[str] = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append("the program"))
    try:
        with on_sigterm(lambda: told.append("us")):
            terminate()
        assert told == ["the program"]
        terminate()
        assert told == ["the program"] * 2
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_a_handler_that_the_program_sets_meanwhile_stays() -> None:
    told: list[str] = []
    try:
        with on_sigterm(lambda: told.append("us")):
            signal.signal(signal.SIGTERM, lambda number, frame: told.append("the program"))
        terminate()
        assert told == ["the program"]
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


async def test_other_threads_do_nothing() -> None:
    def wait() -> None:
        with on_sigterm(list):
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    await asyncio.to_thread(wait)


ASYNC = """
import asyncio, signal, sys
from pyromq import PushConsumer
from pyromq.remoting.loop import run

async def listen(message):
    while stop_on_sigterm != callable(signal.getsignal(signal.SIGTERM)):  # until `run` is waiting
        await asyncio.sleep(0.01)
    print("got", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print("done", flush=True)

async def main():
    async with PushConsumer(sys.argv[2], sys.argv[1], {sys.argv[3]: "*"}, listen, start_from="earliest") as consumer:
        await consumer.run(stop_on_sigterm=stop_on_sigterm)
    print("closed", flush=True)

stop_on_sigterm = sys.argv[5:] == []
(run if sys.argv[4] == "uvloop" else asyncio.run)(main())
"""

BLOCKING = """
import signal, sys, time
from pyromq.blocking import PushConsumer

def listen(message):
    while not callable(signal.getsignal(signal.SIGTERM)):  # until `run` is waiting
        time.sleep(0.01)
    print("got", flush=True)
    sys.stdin.readline()
    print("done", flush=True)

with PushConsumer(sys.argv[2], sys.argv[1], {sys.argv[3]: "*"}, listen, start_from="earliest") as consumer:
    consumer.run()
print("closed", flush=True)
"""


@asynccontextmanager
async def child_with_a_message(
    cluster: LocalCluster, topic: str, group: str, program: str, *options: str
) -> AsyncIterator[Process]:
    """Run a consumer in a process of its own, until its listener has a message and waits for a line."""
    arguments = [sys.executable, "-c", program, cluster.namesrv, group, topic, *options]
    child = await asyncio.create_subprocess_exec(*arguments, stdin=PIPE, stdout=PIPE)
    try:
        assert child.stdout is not None
        assert await child.stdout.readline() == b"got\n"
        yield child
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


@pytest.mark.parametrize(
    ("program", "loop"), [(ASYNC, "asyncio"), (ASYNC, "uvloop"), (BLOCKING, "-")], ids=["asyncio", "uvloop", "blocking"]
)
async def test_a_consumer_finishes_commits_and_leaves(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, program: str, loop: str
) -> None:
    await producer.send(Message(topic=topic, body=b"x"))
    async with child_with_a_message(cluster, topic, group, program, loop) as child:
        child.send_signal(signal.SIGTERM)
        output, _ = await child.communicate(b"go on\n")
    assert (output, child.returncode) == (b"done\nclosed\n", 0)
    async with await BrokerApi.connect(cluster.namesrv) as api:
        assert sum(await committed(api, cluster.brokers[0].address, group, topic)) == 1
    clients = cluster.brokers[0].server.clients  # type: ignore[union-attr]
    await eventually(lambda: not clients.members(group))


async def test_a_consumer_that_opts_out_is_ended(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await producer.send(Message(topic=topic, body=b"x"))
    async with child_with_a_message(cluster, topic, group, ASYNC, "asyncio", "opts out") as child:
        child.send_signal(signal.SIGTERM)
        assert await child.wait() == -signal.SIGTERM
