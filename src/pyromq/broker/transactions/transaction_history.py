"""TransactionHistory: what the store has about a transaction, if the ledger alone does not know enough.

All copies of a half message, the committed message and the given-up copy have the producer's unique key, so the index
finds them. The index is searched in a thread; the records are read on the loop, once they are in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pyromq.broker.messages.deferred_messages import has_level, is_timed
from pyromq.broker.transactions.half_messages import Identity, StoredHalf, read_half
from pyromq.protocol.messages.record import TRANSACTION_COMMIT, TRANSACTION_MASK
from pyromq.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC, TRANSACTION_CHECK_MAX_TOPIC, TRANSACTION_HALF_TOPIC
from pyromq.store.message_store import MessageStore
from pyromq.store.read.disk.disk_access import read_all

_MOST: Final = 64  # copies of one half message; it is checked 15 times


class RecordPlaces(NamedTuple):
    """Physical offsets of records that may belong to a transaction."""

    halves: list[int]
    messages: list[int]
    given_up: list[int]


class TransactionPast(NamedTuple):
    """What has happened to a transaction so far."""

    copies: list[StoredHalf]
    """Its half messages, newest first, including those of retried sends."""
    is_committed: bool
    given_up: StoredHalf | None
    """The latest copy if it was given up, else None."""


class TransactionHistory:
    """Looks up transactions."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._has_index = store.config.message_index

    def knows(self, half: StoredHalf) -> bool:
        """Return True if copies of a half message can be found."""
        return self._has_index and bool(half.unique_key)

    def find(self, half: StoredHalf) -> RecordPlaces:
        """Return the places of its records; any thread may call this."""
        if not self.knows(half):
            return RecordPlaces([], [], [])
        topics = [half.real_topic]
        if has_level(half.properties):
            topics.append(SCHEDULE_TOPIC)
        elif is_timed(half.properties):
            topics.append(TIMER_TOPIC)
        return RecordPlaces(
            self._places(TRANSACTION_HALF_TOPIC, half),
            [place for topic in topics for place in self._places(topic, half)],
            self._places(TRANSACTION_CHECK_MAX_TOPIC, half),
        )

    def _places(self, topic: str, half: StoredHalf) -> list[int]:
        return self._store.find(topic, half.unique_key, _MOST)

    def read(self, half: StoredHalf, places: RecordPlaces) -> TransactionPast:
        """Read the records; call this on the loop."""
        halves = {half.physical_offset, *places.halves}  # even if the index does not have it
        copies = self._same(half.identity, TRANSACTION_HALF_TOPIC, halves)
        prepared = {copy.physical_offset for copy in copies}
        committed = read_all(self._read, places.messages)
        given_up = self._same(half.identity, TRANSACTION_CHECK_MAX_TOPIC, places.given_up)
        newest = max(prepared, default=0)
        return TransactionPast(
            copies,
            any(message is not None and _is_commit_of(message, prepared) for message in committed),
            given_up[0] if given_up and given_up[0].physical_offset > newest else None,
        )

    def _same(self, identity: Identity, topic: str, places: Iterable[int]) -> list[StoredHalf]:
        found = read_all(self._read, sorted(places, reverse=True))
        return [half for half in found if half is not None and half.topic == topic and half.identity == identity]

    def _read(self, place: int) -> StoredHalf | None:
        record = self._store.read(place)
        return None if record is None else read_half(record)


def _is_commit_of(message: StoredHalf, prepared: set[int]) -> bool:
    return (
        message.head.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT
        and message.head.prepared_transaction_offset in prepared
    )
