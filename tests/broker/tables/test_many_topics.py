"""Many topics with one queue each, in short: `bench/many_topics.py` does it with ten thousand and prints the cost."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.testing import TestClock
from tests.broker.conftest import Connect
from tests.broker.helpers import Peer
from tests.store.helpers import maps, open_files

TOPICS = 500


async def send_to_all(peer: Peer) -> None:
    sends = [peer.send(f"topic-{number}", default_topic_queue_nums=1) for number in range(TOPICS)]
    await asyncio.gather(*sends)


async def test_many_topics_cost_what_they_hold(clock: TestClock, connect: Connect, tmp_path: Path) -> None:
    root = tmp_path / "store"
    config = broker_config({"listenPort": "0", "storePathRootDir": str(root)})
    assert config.max_topics >= 10_000
    for sent in range(3):
        async with Broker(config, clock) as broker:
            peer = await connect(broker)
            assert {broker.store.max_offset(f"topic-{number}", 0) for number in range(TOPICS)} == {sent}
            await send_to_all(peer)
            await peer.read("topic-77")
            assert open_files(root) < config.store.max_open_files + 32
            assert maps(root) <= 1
            await peer.remoting.close()
    queue_files = list(root.glob("consumequeue/*/*/*"))
    assert len(queue_files) == TOPICS
    assert {path.stat().st_size for path in queue_files} == {6_000_000}
    assert max(path.stat().st_blocks for path in queue_files) * 512 <= 8192
