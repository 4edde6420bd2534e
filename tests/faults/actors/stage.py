"""The stage of the chaos campaign: the broker in a process of its own, its tables, and what it says in the end."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

from pyromq import PyroMQError
from pyromq.admin import AdminClient
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import NoRoute
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.admin import DeleteTopicInBrokerRequestHeader
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import dlq_topic, retry_topic
from tests.faults.actors.listeners import value_of
from tests.faults.actors.roles import QUEUES, ROLES, form_groups
from tests.faults.campaign import Server, free_ports
from tests.faults.journal import AnyEvent, Buried, Committed, Deleted, Journal, Restarted, Stored

BROKER = "broker-a"
SETTINGS = (
    "messageDelayLevel=" + " ".join(["1s"] * 18),
    "flushConsumerOffsetInterval=1000",
    "transactionTimeOut=300",
    "transactionCheckInterval=500",
    "transactionCheckMax=100000",
    # A small disk is filled on purpose; the limits by ratio would refuse sends much earlier.
    "diskSpaceWarningLevelRatio=1",
    "diskSpaceCleanForciblyRatio=1",
    "diskMaxUsedSpaceRatio=95",
)
TABLES = ("topics.json", "consumerOffset.json", "subscriptionGroup.json", "delayOffset.json")
_OBSERVED_EVERY = 0.3


class Stage:
    """The broker, which comes and goes at one address."""

    def __init__(self, directory: Path, data: Path, flush: str) -> None:
        self.directory = directory
        self.data = data
        self._ports = free_ports()
        self._flush = flush
        self._log = directory / "broker.log"
        self.namesrv = f"127.0.0.1:{self._ports[0]}"
        self.address = f"127.0.0.1:{self._ports[1]}"
        self.journal = Journal(directory / "stage.jsonl", "stage")
        self.lives = 0
        self.up = False
        self._server: Server | None = None
        self._change = asyncio.Lock()
        form_groups(self.journal, ROLES)

    # --- the broker

    async def open(self) -> None:
        """Start the broker and create the topics."""
        await self._start()
        async with await BrokerApi.connect(self.namesrv) as api:
            for topic, queues in QUEUES.items():
                await api.create_topic(self.address, topic, queues)

    async def _start(self) -> None:
        self._server = await asyncio.to_thread(
            Server, self.data, self._log, flush=self._flush, ports=self._ports, settings=SETTINGS
        )
        self.lives += 1
        self.up = True

    async def restart(self, how: signal.Signals, pause: float = 0.0) -> None:
        """End the broker in this way and start it again."""
        async with self._change:
            self.up = False
            saved = how != signal.SIGKILL and not self._blocked()
            assert self._server is not None
            await asyncio.to_thread(self._server.end, how)
            self.journal.write(Restarted, saved=saved, epoch=self.lives)
            await asyncio.sleep(pause)
            await self._start()

    async def freeze(self, seconds: float) -> None:
        """Let the broker stand still, with its connections open."""
        async with self._change:
            assert self._server is not None
            self._server.send_signal(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            self._server.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End everything."""
        self.up = False
        if self._server is not None:
            self._server.kill()
        self.journal.close()

    # --- its disk

    @property
    def _config(self) -> Path:
        return self.data / "store" / "config"

    def _blocked(self) -> bool:
        return any((self._config / f"{table}.tmp").is_dir() for table in TABLES)

    async def block(self, table: str, seconds: float) -> None:
        """Let writes of a table fail for some time."""
        path = self._config / f"{table}.tmp"
        with suppress(OSError):
            path.mkdir()
        try:
            await asyncio.sleep(seconds)
        finally:
            with suppress(OSError):
                path.rmdir()

    async def fill_disk(self, seconds: float) -> None:
        """Let the disk be full for some time."""
        ballast = self.data / "ballast"
        free = shutil.disk_usage(self.data).free
        with suppress(OSError), ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, free - 16 * 1024))
        try:
            await asyncio.sleep(seconds)
        finally:
            ballast.unlink(missing_ok=True)

    # --- what it says

    async def delete_topic(self, topic: str, journal: Journal) -> None:
        """Delete a topic; raises if the broker is away, and then nobody knows."""
        since = time.monotonic()
        command = request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequestHeader(topic=topic))
        try:
            async with await BrokerApi.connect(self.namesrv) as api:
                await api.call(self.address, command, 5.0)
        finally:
            journal.write(Deleted, topic=topic, since=since)

    async def observe(self) -> None:
        """Write down every change of the committed offsets."""
        seen: dict[tuple[str, int], int] = {}
        async with await BrokerApi.connect(self.namesrv) as api:
            calls = AdminCalls(api.remoting)
            while True:
                await asyncio.sleep(_OBSERVED_EVERY)
                life = self.lives
                try:
                    offsets = await calls.committed_offsets(self.address)
                except PyroMQError:
                    continue
                if not self.up or self.lives != life:
                    continue  # an answer of the last life, read too late to be put in order
                for name, found in offsets.items():
                    topic, _, group = name.partition("@")
                    for queue_id, offset in found.items():
                        if seen.get((name, queue_id)) != offset:
                            seen[name, queue_id] = offset
                            queue = MessageQueue(topic, BROKER, queue_id)
                            self.journal.write(Committed, group=group, queue=queue, offset=offset, epoch=life)

    async def contents(self) -> list[AnyEvent]:
        """Return all that is stored in topics and retry topics, and all dead letters."""
        found: list[AnyEvent] = []
        now = time.monotonic()
        async with AdminClient(self.namesrv) as admin:
            for topic in (*QUEUES, *(retry_topic(role.group) for role in ROLES)):
                with suppress(NoRoute):
                    async for message in admin.read(topic):
                        queue = MessageQueue(topic, BROKER, message.queue_id)
                        found.append(Stored(at=now, queue=queue, offset=message.queue_offset, value=value_of(message)))
            for role in ROLES:
                with suppress(NoRoute):
                    async for letter in admin.read(dlq_topic(role.group)):
                        found.append(Buried(at=now, group=role.group, value=value_of(letter)))
        return found
