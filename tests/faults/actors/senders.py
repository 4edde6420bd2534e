"""Senders of every kind; each writes down what it is about to send, and what it was told."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyromq import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    Message,
    MessageExt,
    Producer,
    PyroMQError,
    SendResult,
    TransactionProducer,
)
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.headers.transactions import TransactionState
from pyromq.protocol.messages.message_id import decode_offset_id
from tests.faults.actors.listeners import SEPARATOR, value_of
from tests.faults.actors.roles import KEYED, LATER, MAIN, QUEUES, SIDE
from tests.faults.actors.stage import Stage
from tests.faults.journal import RAISED, Answered, Attempted, Journal, Recalled

RETRIES = 2
KEYS = 6
_AFTER_A_FAILURE = 0.1
_SIZES = (20, 20, 20, 200, 2000, 9000)


class Senders:
    """All senders of a round."""

    def __init__(self, namesrv: str, directory: Path, seed: int, pace: float) -> None:
        self._namesrv = namesrv
        self._journal = Journal(directory / "senders.jsonl", "senders")
        self._chance = random.Random(f"{seed} senders")
        self._pace = pace
        self._numbers = itertools.count()
        self._over = asyncio.Event()
        self._fates: dict[str, TransactionState] = {}
        self.cut_off = 0

    def stop(self) -> None:
        """Send nothing more."""
        self._over.set()

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    async def run(self) -> None:
        """Send until stopped; transactions are answered until this is cancelled."""
        namesrv = self._namesrv
        async with (
            Producer("patient", namesrv, retries=RETRIES, send_timeout=2.0) as patient,
            Producer("hasty", namesrv, retries=0, send_timeout=2.0) as hasty,
            TransactionProducer("payer", namesrv, check=self._check, retries=0, send_timeout=2.0) as payer,
        ):
            await asyncio.gather(*(self._go_on(way) for way in self._ways(patient, hasty, payer)))
            await asyncio.sleep(3600)

    def _ways(
        self, patient: Producer, hasty: Producer, payer: TransactionProducer
    ) -> list[Callable[[], Awaitable[None]]]:
        """Return what is done over and over, each beside the others."""
        return [
            lambda: self._plain(patient, RETRIES + 1),
            lambda: self._plain(hasty, 1),
            lambda: self._batch(hasty),
            lambda: self._oneway(hasty),
            lambda: self._transaction(payer),
            *(lambda key=f"k{number}": self._ordered(hasty, key) for number in range(KEYS)),
            *self._delayed_ways(hasty),
        ]

    def _delayed_ways(self, hasty: Producer) -> list[Callable[[], Awaitable[None]]]:
        return [lambda: self._level(hasty), lambda: self._timed(hasty), lambda: self._timed(hasty)]

    async def _go_on(self, way: Callable[[], Awaitable[None]]) -> None:
        while not self._over.is_set():
            try:
                await way()
            except PyroMQError:
                await asyncio.sleep(_AFTER_A_FAILURE)
            await asyncio.sleep(self._chance.uniform(0, 2 * self._pace))

    # --- one message

    def _attempt(self, topic: str, how: str, **more: Any) -> tuple[str, Message]:
        value = f"{how}-{next(self._numbers)}"
        self._journal.write(Attempted, value=value, topic=topic, how=how, **more)
        padding = b"x" * self._chance.choice(_SIZES)
        return value, Message(topic=topic, body=value.encode() + SEPARATOR + padding, keys=[value])

    async def _send(self, value: str, sending: Awaitable[SendResult], *, waits: bool = False) -> SendResult:
        try:
            if self._chance.random() < 0.03:
                self.cut_off += 1
                async with asyncio.timeout(self._chance.uniform(0, 0.01)):
                    result = await sending
            else:
                result = await sending
        except PyroMQError as error:
            self._journal.write(Answered, value=value, status=RAISED, error=_text(error))
            raise
        except TimeoutError as error:  # ours: nobody knows what became of it
            raise PyroMQError("cut off") from error
        self._note(value, result, waits=waits)
        return result

    def _note(self, value: str, result: SendResult, *, waits: bool = False) -> Answered:
        """Write down an answer: what it says, where the message lies, and which broker stored it."""
        place = {} if waits else {"queue": result.queue, "offset": result.queue_offset}
        node, _ = decode_offset_id(result.offset_message_id)
        return self._journal.write(Answered, value=value, status=str(result.status), node=node, **place)

    async def _plain(self, producer: Producer, copies: int) -> None:
        value, message = self._attempt(MAIN, "plain", copies=copies)
        await self._send(value, producer.send(message))

    async def _ordered(self, producer: Producer, key: str) -> None:
        value, message = self._attempt(KEYED, "ordered", key=key)
        await self._send(value, producer.send(message, order_key=key))

    async def _oneway(self, producer: Producer) -> None:
        _, message = self._attempt(MAIN, "oneway")
        await producer.send_oneway(message)

    async def _level(self, producer: Producer) -> None:
        value, message = self._attempt(LATER, "level", due=time.monotonic() + 1.0)
        await self._send(value, producer.send(message, level=self._chance.randint(1, 18)), waits=True)

    async def _timed(self, producer: Producer) -> None:
        delay = self._chance.choice((0.05, 0.5, 1.5, 4.0))
        value, message = self._attempt(LATER, "timed", due=time.monotonic() + delay)
        result = await self._send(value, producer.send(message, delay=delay), waits=True)
        if self._chance.random() < 0.2:
            await self._cancel(producer, value, result)

    async def _cancel(self, producer: Producer, value: str, result: SendResult) -> None:
        try:
            done = await producer.cancel(result)
        except BaseException:  # nobody knows whether it was done
            self._journal.write(Recalled, value=value, is_sure=False)
            raise
        if done:
            self._journal.write(Recalled, value=value)

    async def _batch(self, producer: Producer) -> None:
        attempts = [self._attempt(MAIN, "batch") for _ in range(self._chance.randint(2, 12))]
        try:
            results = await producer.send_batch([message for _, message in attempts])
        except PyroMQError as error:
            for value, _ in attempts:
                self._journal.write(Answered, value=value, status=RAISED, error=_text(error))
            raise
        for (value, _), result in zip(attempts, results, strict=True):
            self._note(value, result)

    # --- transactions

    async def _transaction(self, producer: TransactionProducer) -> None:
        end = self._chance.choice((COMMIT, COMMIT, ROLLBACK))
        value, message = self._attempt(MAIN, "transaction", rolled_back=end is ROLLBACK)
        self._fates[value] = end
        told = self._chance.choice((end, end, UNKNOWN, None))

        async def execute(half: MessageExt) -> TransactionState:
            if told is None:
                raise RuntimeError("what became of it?")
            return told

        await self._send(value, producer.send_in_transaction(message, execute), waits=True)

    async def _check(self, half: MessageExt) -> TransactionState:
        return UNKNOWN if self._chance.random() < 0.2 else self._fates[value_of(half)]


class ChaosSenders(Senders):
    """The senders of the chaos campaign, which also delete a topic and create it again."""

    def __init__(self, stage: Stage, directory: Path, seed: int, pace: float) -> None:
        super().__init__(stage.namesrv, directory, seed, pace)
        self._stage = stage

    def _ways(
        self, patient: Producer, hasty: Producer, payer: TransactionProducer
    ) -> list[Callable[[], Awaitable[None]]]:
        return [*super()._ways(patient, hasty, payer), lambda: self._side(hasty)]

    async def _side(self, producer: Producer) -> None:
        for _ in range(self._chance.randint(1, 10)):
            value, message = self._attempt(SIDE, "plain")
            await self._send(value, producer.send(message))
            await asyncio.sleep(self._pace)
        if self._chance.random() < 0.3:
            await self._stage.delete_topic(SIDE, self._journal)
            await self._create(SIDE)

    async def _create(self, topic: str) -> None:
        while not self._over.is_set():
            with suppress(PyroMQError):
                async with await BrokerApi.connect(self._stage.namesrv) as api:
                    await api.create_topic(self._stage.address, topic, QUEUES[topic])
                    return
            await asyncio.sleep(_AFTER_A_FAILURE)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
