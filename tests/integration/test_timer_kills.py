"""Timed messages on a broker that is killed while it delivers them: none is lost, early or delivered twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from pathlib import Path

from pyromq import Message, Producer
from pyromq.admin import AdminClient
from pyromq.errors import PyroMQError
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.record import decode_messages
from pyromq.store.read.reader import StoreReader
from pyromq.testing import eventually
from tests.cli.conftest import Servers, start_up, stop

KILLS = ("ASYNC_FLUSH", "SYNC_FLUSH")


class Story:
    """What producers know about their messages, by id."""

    def __init__(self) -> None:
        self.sent: set[str] = set()
        self.cancelling: set[str] = set()
        """Messages that a producer tried to cancel; the outcome is not always known."""
        self.cancelled: set[str] = set()


async def send_some(servers: Servers, chance: random.Random, story: Story) -> None:
    """Send and cancel for some time, then kill the broker."""
    enough = len(story.sent) + chance.randrange(60, 120)

    async def go_on(producer: Producer) -> None:
        while True:
            result = await producer.send(Message(topic="orders", body=b"x"), delay=chance.uniform(0.01, 2.0))
            story.sent.add(result.message_id)
            if chance.random() < 0.1:
                story.cancelling.add(result.message_id)
                if await producer.cancel(result):
                    story.cancelled.add(result.message_id)
            await asyncio.sleep(0.01)

    async with Producer("shop", servers.namesrv, send_timeout=1, retries=0) as producer:
        tasks = [asyncio.create_task(go_on(producer)) for _ in range(8)]
        await eventually(lambda: len(story.sent) >= enough)
        os.kill(servers.process.pid, signal.SIGKILL)
        servers.process.wait()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, PyroMQError) for outcome in outcomes)


async def all_delivered(servers: Servers) -> None:
    async with AdminClient(servers.namesrv) as admin:

        async def none_waits() -> bool:
            return await admin.timed_messages.count() == 0

        await eventually(none_waits, "no timed message waits")


def delivered(root: Path) -> list[MessageExt]:
    with StoreReader(root) as reader:
        return [
            message
            for queue_id in reader.queue_ids("orders")
            for message in decode_messages(
                b"".join(reader.get("orders", queue_id, 0, 10_000, max_bytes=64 << 20).views)
            )
        ]


async def test_each_message_comes_once_however_often_the_broker_is_killed(tmp_path: Path) -> None:
    chance, story = random.Random(4), Story()
    for flush in KILLS:
        await send_some(start_up(tmp_path, "--set", f"flushDiskType={flush}"), chance, story)
    servers = start_up(tmp_path)
    await all_delivered(servers)
    assert stop(servers) == 0
    messages = delivered(tmp_path / "store")
    counts = Counter(message.message_id for message in messages)
    assert story.sent - counts.keys() <= story.cancelling
    assert not counts.keys() & story.cancelled
    assert set(counts.values()) == {1}
    assert all(message.store_timestamp_ms >= int(message.properties["TIMER_OUT_MS"]) for message in messages)
    assert len(messages) > 60
