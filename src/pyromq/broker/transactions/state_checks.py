"""TransactionChecks: asks producers about half messages that have been open for too long.

Each round goes once over the open half messages. One that is due is written again at the end of its queue, with a
higher count, and a producer of its group is asked about that copy (CHECK_TRANSACTION_STATE). After too many questions,
or when it is older than the log is kept, it is given up: an operator finds it in TRANS_CHECK_MAX_TIME_TOPIC.

If no producer of a group is online, its half messages wait and nothing is counted. They stay in their place, as do
those whose producer asked for more time. If they keep the ledger from moving on, they are moved to the end of the
queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import partial
from typing import Final

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.parts import Parts, Writing
from pyromq.broker.transactions.half_messages import (
    QUEUE,
    StoredHalf,
    checked_record,
    given_up_record,
    moved_record,
    question,
)
from pyromq.broker.transactions.open_transactions import OpenTransactions
from pyromq.errors import ConnectionLost, StoreError
from pyromq.protocol.codes import LanguageCode, RequestCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.transactions import CheckTransactionStateRequestHeader
from pyromq.protocol.messages.message_id import encode_offset_id
from pyromq.protocol.messages.record import Record
from pyromq.protocol.names import TRANSACTION_CHECK_MAX_TOPIC, TRANSACTION_HALF_TOPIC
from pyromq.remoting.connection import Connection
from pyromq.remoting.ticker import Ticker
from pyromq.store.results import PutResult

logger = logging.getLogger(__name__)

LOOKS_AT_A_TIME: Final = 50  # about 5 ms
MOST_IN_LEDGER: Final = 200_000  # from the first open half message to the end: takes a second to read at the next start
_HOUR_MS: Final = 3_600_000
_MOST_TRIES: Final = 3  # to find a producer whose connection is writable


class TransactionChecks:
    """Asks, counts and gives up, in one round at a time."""

    def __init__(self, parts: Parts, writing: Writing, transactions: OpenTransactions) -> None:
        self.checks = self.given_up = 0
        self._clock = parts.clock
        self._reads = parts.reads
        self._store = writing.store
        self._topics = parts.topics
        self._clients = parts.clients
        self._access = parts.access
        self._transactions = transactions
        self._acknowledgements = writing.acknowledgements
        self._ticker = Ticker(parts.clock, parts.config.transaction_check_interval, self._begin)
        self._task: asyncio.Task[None] | None = None
        self._turn = 0
        self.configure(parts.config)

    def configure(self, config: BrokerConfig) -> None:
        """Apply changed settings."""
        self._timeout_ms = round(config.transaction_timeout * 1000)
        self._most_checks = config.transaction_check_max
        self._longest_ms = config.store.file_reserved_hours * _HOUR_MS

    def start(self) -> None:
        """Start a round after each interval."""
        self._ticker.start()

    async def stop(self) -> None:
        """Start no more rounds."""
        self._ticker.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _begin(self) -> bool:
        if self._task is None and self._store.writable:
            self._task = asyncio.create_task(self._run(), name="pyromq transaction checks")
        return True

    async def _run(self) -> None:
        try:
            await self._round()
        except StoreError as error:
            logger.warning("a round of transaction checks ended early: %s", error)
        except Exception:
            logger.exception("a round of transaction checks failed")
        finally:
            self._task = None

    async def _round(self) -> None:
        ledger = self._transactions.ledger
        ledger.skip_to(self._store.min_offset(TRANSACTION_HALF_TOPIC, QUEUE))
        began_ms = self._clock.now_ms()
        end = self._transactions.end_offset  # copies written from here on are for the next round
        without_producer: Counter[str] = Counter()
        looks = 0
        offset = ledger.next_open(ledger.low)
        while offset < end:
            half = await self._reads.read(partial(self._transactions.read, offset))
            if ledger.is_open(offset):  # it may have ended while the disk was waited for
                self._look_at(offset, half, began_ms, without_producer)
            looks += 1
            if looks % LOOKS_AT_A_TIME == 0:
                await self._clock.sleep(0)
            offset = ledger.next_open(offset + 1)
        for group, count in without_producer.items():
            logger.warning(
                "no producer is online to ask about open transactions group=%s half messages=%d", group, count
            )

    def _look_at(self, offset: int, half: StoredHalf | None, began_ms: int, without_producer: Counter[str]) -> None:
        """Check, move or give up an open half message."""
        if half is None:
            logger.error("a half message is unreadable and is skipped offset=%d", offset)
            self._settle(offset)
            return
        age_ms = began_ms - half.head.born_timestamp_ms
        if half.check_times >= self._most_checks or age_ms > self._longest_ms:
            self._give_up(half)
        elif not self._is_due(half, age_ms):
            self._make_way(half)
        elif connection := self._next_producer(half):
            self._check(half, connection)
        else:
            without_producer[half.group] += 1
            self._make_way(half)

    def _is_due(self, half: StoredHalf, age_ms: int) -> bool:
        """Return True if a producer has to be asked; at once, as in RocketMQ, if its clock is ahead of ours."""
        immunity_ms = self._timeout_ms if half.immunity is None else half.immunity * 1000
        return age_ms < 0 or age_ms >= immunity_ms

    def _next_producer(self, half: StoredHalf) -> Connection | None:
        """Return the next producer of the group, if possible one whose connection is writable.

        It is shown the message, so that it must have the right to send it: anybody can say that it is in a group.
        """
        members = [
            connection
            for connection in self._clients.producers.get(half.group, ())
            if self._access.may_publish(connection, half.real_topic)
        ]
        self._turn += 1
        turns = [members[(self._turn + number) % len(members)] for number in range(min(_MOST_TRIES, len(members)))]
        alive = [connection for connection in turns if not connection.closed]
        return next((connection for connection in alive if connection.writable), alive[-1] if alive else None)

    # --- what happens to a half message

    def _check(self, half: StoredHalf, connection: Connection) -> None:
        copy = checked_record(half)
        place = self._replace(half, copy)
        self.checks += 1
        self._acknowledgements.then(partial(_ask, connection, half, copy, place))

    def _make_way(self, half: StoredHalf) -> None:
        if self._transactions.end_offset - half.queue_offset > MOST_IN_LEDGER:
            self._replace(half, moved_record(half))

    def _give_up(self, half: StoredHalf) -> None:
        self._topics.ensure(TRANSACTION_CHECK_MAX_TOPIC, 1, "for transactions that were given up")
        self._replace(half, given_up_record(half))
        self.given_up += 1
        logger.warning(
            "gave up a transaction message=%s topic=%s group=%s checks=%d",
            *(half.unique_key, half.real_topic, half.group, half.check_times),
        )

    def _replace(self, half: StoredHalf, copy: Record) -> PutResult:
        place = self._store.put(copy)
        self._settle(half.queue_offset)
        return place

    def _settle(self, offset: int) -> None:
        self._transactions.settle_offset(offset)
        self._acknowledgements.expect_group()


def _ask(connection: Connection, half: StoredHalf, copy: Record, place: PutResult, stored: bool) -> None:
    if not stored:
        return
    header = CheckTransactionStateRequestHeader(
        tran_state_table_offset=place.queue_offset,
        commit_log_offset=place.physical_offset,
        msg_id=half.unique_key or None,
        transaction_id=half.unique_key or None,
        offset_msg_id=encode_offset_id(half.head.store_host, place.physical_offset),
    )
    command = request(
        RequestCode.CHECK_TRANSACTION_STATE, header, question(half, copy, place), language=LanguageCode.JAVA
    )
    try:
        connection.oneway(command)
    except ConnectionLost:
        logger.info("a producer left before it could be asked group=%s", half.group)
