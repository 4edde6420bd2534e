"""Offset stores: where a group's progress is kept.

On the brokers, unless the caller provides another store. Broadcasting members keep their own progress in a local file,
which is the one of Java's clients: `~/.rocketmq_offsets/<client id>/<group>/offsets.json`, its last version in `.bak`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Protocol

from pyromq.client.net.calls.answers import CommittedOffset
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import Routes
from pyromq.errors import ClientError, ProtocolError
from pyromq.protocol.bodies import ResetOffsetBody, decode
from pyromq.protocol.bodies.fastjson import dumps_pretty
from pyromq.protocol.codes import MASTER_ID
from pyromq.protocol.messages.message import MessageQueue


class OffsetStore(Protocol):
    """Keeps a committed offset for each queue of a group."""

    async def load(self, queue: MessageQueue) -> int | None:
        """Return the committed offset, None if there is none; raise if the store cannot tell now."""

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store an offset; return when it is stored."""


class BrokerOffsets:
    """Keeps offsets on the broker that has the queue."""

    def __init__(self, api: BrokerApi, routes: Routes, group: str) -> None:
        self._api = api
        self._routes = routes
        self._group = group

    async def load(self, queue: MessageQueue) -> int | None:
        """Ask the master, or a slave if the master is away."""
        return (await self.load_with_source(queue)).offset

    async def load_with_source(self, queue: MessageQueue) -> CommittedOffset:
        """Return the committed offset, in which life of its topic, and whether the master says so."""
        keeper = await self._routes.find_keeper(queue)
        found = await self._api.query_committed(keeper.address, self._group, queue.topic, queue.queue_id)
        return found if keeper.broker_id == MASTER_ID else CommittedOffset(found.offset, is_sure=False)

    def keeper_address(self, queue: MessageQueue) -> str:
        """Return where a commit would go now; empty if that is not known."""
        keeper = self._routes.reader(queue.broker_name)
        return "" if keeper is None else keeper.address

    async def commit(
        self, queue: MessageQueue, offset: int, *, forward: bool = False, deleted_at: int | None = None
    ) -> None:
        """Send the offset to the master, or to a slave if the master is away, and wait for the answer.

        With `forward`, a higher one stays, of a member that had the queue at the same time. With `deleted_at`, an
        offset counts only in that life of its topic.
        """
        keeper = await self._routes.find_keeper(queue)
        place = keeper.address, self._group, queue.topic, queue.queue_id
        await self._api.commit_offset(*place, offset, forward=forward, deleted_at=deleted_at)


logger = logging.getLogger(__name__)


def default_offsets_path(client_id: str, group: str) -> Path:
    """Return the file in which Java's clients keep the offsets of a broadcasting member."""
    return Path.home() / ".rocketmq_offsets" / client_id / group / "offsets.json"


class LocalOffsets:
    """An OffsetStore in one file, which each commit replaces."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._table: dict[MessageQueue, int] | None = None
        self._lock = asyncio.Lock()

    async def load(self, queue: MessageQueue) -> int | None:
        """Return the offset from the file or its backup; raises ClientError if neither can be read."""
        async with self._lock:
            if self._table is None:
                self._table = await asyncio.to_thread(self._read)
            return self._table.get(queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Rewrite the file with this offset. It survives a crash of the process, but not a power failure."""
        await self.load(queue)
        async with self._lock:
            assert self._table is not None
            self._table[queue] = offset
            try:
                await asyncio.to_thread(self._write, dumps_pretty(ResetOffsetBody(offset_table=self._table)))
            except OSError as error:
                raise ClientError(f"offsets could not be written to {self.path}: {error.strerror}") from error

    def _read(self) -> dict[MessageQueue, int]:
        damage: Exception | None = None
        for path in (self.path, self._beside(".bak")):
            try:
                text = path.read_bytes()
                if text.strip():
                    return decode(ResetOffsetBody, text).offset_table
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, ProtocolError) as error:
                damage = error
                logger.warning("offsets unreadable file=%s reason=%s", path, error)
        if damage is not None:  # starting over would skip or repeat messages, and overwrite what a person could repair
            raise ClientError(f"cannot read {self.path}: {damage}; repair or remove it") from damage
        return {}

    def _write(self, text: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self._beside(".tmp")
        new.write_bytes(text)
        if self.path.exists():
            os.replace(self.path, self._beside(".bak"))
        os.replace(new, self.path)

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)
