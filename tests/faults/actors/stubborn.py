"""Clients that stay with their broker, whoever is master: what a paused or deposed one still answers, they hear."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from pathlib import Path

from pyromq import PyroMQError
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.headers.send import SendMessageRequestHeaderV2
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import TBW102
from tests.faults.actors.listeners import SEPARATOR
from tests.faults.actors.roles import MAIN, QUEUES
from tests.faults.journal import RAISED, Answered, Attempted, Journal

_EVERY = 0.2
_AFTER_A_REFUSAL = 0.4
_PATIENCE = 20.0
_MOST_WAITING = 40


class StubbornClients:
    """One for each broker; each keeps its connection, and has many requests under way where no answer comes."""

    def __init__(self, namesrv: str, addresses: Sequence[str], name: str, directory: Path) -> None:
        self._namesrv = namesrv
        self._addresses = addresses
        self._name = name
        self._journal = Journal(directory / "stubborn.jsonl", "stubborn")
        self._numbers = itertools.count()
        self._over = asyncio.Event()
        self.answers: list[Answered] = []

    def stop(self) -> None:
        """Send nothing more."""
        self._over.set()

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    async def run(self) -> None:
        """Send until stopped, and wait for what is under way."""
        async with await BrokerApi.connect(self._namesrv) as api, asyncio.TaskGroup() as group:
            for address in self._addresses:
                group.create_task(self._stay(api, address, group))

    async def _stay(self, api: BrokerApi, address: str, group: asyncio.TaskGroup) -> None:
        waiting: set[asyncio.Task[bool]] = set()
        while not self._over.is_set():
            if len(waiting) < _MOST_WAITING:
                task = group.create_task(self._send(api, address))
                waiting.add(task)
                done, _ = await asyncio.wait([task], timeout=_EVERY)
                refused = any(not one.result() for one in done)
                waiting = {one for one in waiting if not one.done()}
                await asyncio.sleep(_AFTER_A_REFUSAL if refused else _EVERY if done else 0)
            else:
                await asyncio.sleep(_EVERY)
                waiting = {one for one in waiting if not one.done()}

    async def _send(self, api: BrokerApi, address: str) -> bool:
        """Send a value to this broker; return whether it was stored."""
        number = next(self._numbers)
        value = f"stubborn-{number}"
        queue = MessageQueue(MAIN, self._name, number % QUEUES[MAIN])
        header = SendMessageRequestHeaderV2(
            producer_group="stubborn",
            topic=MAIN,
            default_topic=TBW102,
            default_topic_queue_nums=QUEUES[MAIN],
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=int(time.time() * 1000),
            flag=0,
        )
        self._journal.write(Attempted, value=value, topic=MAIN, node=address)
        try:
            answer = await api.send(address, header, value.encode() + SEPARATOR, timeout=_PATIENCE)
        except PyroMQError as error:
            text = f"{type(error).__name__}: {error}"[:200]
            self._journal.write(Answered, value=value, status=RAISED, error=text, node=address)
            return False
        written = self._journal.write(
            Answered,
            value=value,
            status=str(answer.status),
            queue=queue,
            offset=answer.queue_offset,
            node=address,
        )
        self.answers.append(written)
        return True
