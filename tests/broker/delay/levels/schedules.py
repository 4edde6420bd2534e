"""What tests of delay levels share: sending, reading what was delivered, and copies of a store as a kill leaves it."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyromq.broker.server import Broker
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import decode_messages
from pyromq.store.message_store import MessageStore
from pyromq.testing import TestClock, eventually
from tests.broker.helpers import Peer

SMALL = {
    "mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20_000, "maxHashSlotNum": 100, "maxIndexNum": 1000
}  # fmt: skip
"""Settings of a store that is quickly copied."""


def stored(store: MessageStore, topic: str = "orders", queue_id: int = 0) -> list[MessageExt]:
    """Return all messages of a queue."""
    found: list[MessageExt] = []
    while page := store.get(topic, queue_id, len(found), 1000, max_bytes=1 << 20).views:
        found += decode_messages(b"".join(page))
    return found


def bodies(broker: Broker, topic: str = "orders") -> list[bytes]:
    return [message.body for message in stored(broker.store, topic)]


async def expect(broker: Broker, *expected: bytes, topic: str = "orders") -> None:
    """Wait for these messages; no others may be there."""
    await eventually(lambda: len(bodies(broker, topic)) >= len(expected))
    assert bodies(broker, topic) == list(expected)


def delayed(level: object, **others: str) -> str:
    return encode_properties({"DELAY": str(level), **others})


async def send(peer: Peer, body: bytes, level: object = 1, **fields: Any) -> None:
    """Send a delayed message with a unique key, made of its body."""
    await peer.send(body=body, properties=delayed(level, UNIQ_KEY=body.decode()), **fields)


def progress(root: Path) -> dict[str, Any]:
    text = (root / "config" / "delayOffset.json").read_text()
    table: dict[str, Any] = json.loads(re.sub(r"([{,])(\d+):", r'\1"\2":', text))
    return table


def image(broker: Broker, path: Path) -> Path:
    """Return a copy of a running broker's directory: what is left of it after kill -9."""

    def copy(source: str, target: str) -> None:
        with suppress(FileNotFoundError):  # the temporary file of a table that is being saved
            shutil.copy(source, target)

    shutil.copytree(broker.config.store.root, path, copy_function=copy)
    return path


async def settle(broker: Broker, clock: TestClock) -> None:
    """Let everything become due that these tests send, and be delivered."""
    await clock.advance_async(seconds=6)
    await eventually(lambda: broker.http_info()["delayed_messages_waiting"] == 0)
