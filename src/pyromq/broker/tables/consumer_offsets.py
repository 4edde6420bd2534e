"""Each group's committed offsets: the next queue offset to consume, by topic, group and queue."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor
from typing import Final

from pyromq.broker.tables.changed_keys import ChangedKeys
from pyromq.broker.tables.reset_ids import ResetIds
from pyromq.broker.tables.table_parts import TableParts
from pyromq.broker.tables.table_saver import PrintTable, TableSaver
from pyromq.errors import BrokerError, LocalProtocolError
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.bodies import ConsumerOffsetSerializeWrapper, DataVersion
from pyromq.protocol.bodies.clients import MAX_NAME
from pyromq.protocol.names import TOPIC_GROUP_SEPARATOR, check_group
from pyromq.store.small_files.table_file import TableFile
from pyromq.store.small_files.table_formats import OFFSETS

logger = logging.getLogger(__name__)


OffsetTable = dict[str, dict[int, int]]

_LONGEST_KEY: Final = 2 * MAX_NAME + 1


class ConsumerOffsets:
    """Keeps progress in memory and in consumerOffset.json; a commit is durable after the next save."""

    def __init__(
        self,
        file: TableFile[ConsumerOffsetSerializeWrapper, dict[int, int]],
        resets: ResetIds,
        executor: Executor | None = None,
        limit: int = 1_000_000,
    ) -> None:
        """Keep at most `limit` rows; each is what one group committed of one topic."""
        self.resets = resets
        """When an offset went back, or was deleted."""
        self._limit = limit
        self.table: OffsetTable = {}
        """By `row_key`. Nobody else changes it, but for what `advance` would do (lane/c/pull_note.h)."""
        self._topics_of: dict[str, dict[str, None]] = {}  # by group, in order
        self._groups_of: dict[str, dict[str, None]] = {}  # by topic
        self._file = file
        self.saver = TableSaver(file, self._whole, executor=executor)
        self.parts = TableParts(lambda: self.table, _row_of_answer, _answer, in_turns=True)
        self.backward_commits = 0
        self.changed_keys: ChangedKeys[str] = ChangedKeys()
        """For slaves: what was committed, copied or forgotten here, as `topic@group`."""

    def load(self) -> None:
        """Read the file, replacing what is in memory."""
        self.resets.load()
        loaded = self._file.load()
        if loaded is not None:
            self.table = {key: dict(offsets) for key, offsets in loaded.offset_table.items() if _is_sound(key)}
            if len(self.table) < len(loaded.offset_table):
                count = len(loaded.offset_table) - len(self.table)
                logger.warning("committed offsets left out: %d names are longer than any can be", count)
            self._topics_of.clear()
            self._groups_of.clear()
            for key in self.table:
                self._add_key(key)

    def commit(
        self, group: str, topic: str, queue_id: int, offset: int, who: str, *, only_forward: bool = False
    ) -> None:
        """Note a group's progress; a negative offset is no commit.

        One that goes back is obeyed and counted, as in RocketMQ, unless `only_forward`: then two members had the queue
        for a moment, and what the one ahead has finished is finished.
        """
        if offset < 0:
            return  # a client that never consumed the queue says -1
        key = row_key(topic, group)
        offsets = self.table.get(key)
        if offsets is None:
            offsets = self._new_row(key)
        before = offsets.get(queue_id)
        if before == offset:
            return
        if before is not None and offset < before:
            if only_forward:
                return
            self.backward_commits += 1
            self.resets.note(key)
            logger.warning(
                "committed offset moved back group=%s topic=%s queue=%d from=%d to=%d by=%s",
                *(group, topic, queue_id, before, offset, who),
            )
        offsets[queue_id] = offset
        self.saver.changes.rows.setdefault(key, {})[queue_id] = offset
        self.changed_keys.note(key)

    def advance(self, key: str, queue_id: int, offset: int) -> bool:
        """Note the progress of a `row_key`; return False, with nothing noted, unless it is a mere step forward."""
        offsets = self.table.get(key)
        before = None if offsets is None else offsets.get(queue_id)
        if offsets is None or before is None or offset < before:
            return False
        if offset > before:
            offsets[queue_id] = offset
            self.saver.changes.rows.setdefault(key, {})[queue_id] = offset
            if key not in self.changed_keys.fresh:
                self.changed_keys.note(key)
        return True

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the committed offset, None where the group never committed."""
        offsets = self.table.get(row_key(topic, group))
        return None if offsets is None else offsets.get(queue_id)

    def of(self, group: str, topic: str) -> Mapping[int, int]:
        """Return what a group has committed of a topic, by queue id."""
        return self.table.get(row_key(topic, group), {})

    def clone(self, source: str, target: str, topic: str, who: str) -> None:
        """Give a group the offsets that another has of a topic; those that it had count no more."""
        offsets = self.of(source, topic)
        if offsets:
            key = row_key(topic, target)
            self.resets.note(key)
            self.table[key] = dict(offsets)
            self._add_key(key)
            self.saver.changes.remove(key)
            self._note(key, offsets)
            logger.info("offsets copied from=%s to=%s topic=%s by=%s", source, target, topic, who)

    def stay_within(self, end_of: Callable[[str, int], int]) -> None:
        """Bring back offsets that lie behind their queue's end: messages that are to come must not be skipped.

        Called once, after recovery: only a cut of the log can have taken what a group had consumed.
        """
        for key, offsets in self.table.items():
            topic, group = _split(key)
            ends = {queue_id: end_of(topic, queue_id) for queue_id in offsets}
            ahead = {queue_id: end for queue_id, end in ends.items() if offsets[queue_id] > end}
            if ahead:
                logger.warning("committed offsets brought back to the end group=%s topic=%s to=%s", group, topic, ahead)
                offsets.update(ahead)
                self._note(key, ahead)

    def topics_of(self, group: str) -> list[str]:
        """Return the topics that a group has offsets of."""
        return list(self._topics_of.get(group, ()))

    def group_names(self) -> list[str]:
        """Return all groups that have offsets."""
        return list(self._topics_of)

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have offsets of a topic."""
        return list(self._groups_of.get(topic, ()))

    def remove_group(self, group: str) -> None:
        """Forget all that a group committed."""
        for topic in self.topics_of(group):
            self._remove(row_key(topic, group))

    def remove_topics(self, topics: Collection[str]) -> None:
        """Forget all that was committed of topics: those of the same names that are created later begin at 0."""
        for topic in topics:
            for group in self.groups_of(topic):
                self._remove(row_key(topic, group))

    def remove_queues(self, queues: Iterable[tuple[str, int]]) -> None:
        """Forget all that was committed of queues, each given by its topic and id."""
        gone: dict[str, set[int]] = {}
        for topic, queue_id in queues:
            gone.setdefault(topic, set()).add(queue_id)
        for key, offsets in self.table.items():
            ids = gone.get(_split(key)[0], set()) & offsets.keys()
            if ids:
                for queue_id in ids:
                    del offsets[queue_id]
                self.resets.note(key)
                self.saver.changes.remove(key)  # a record holds a row as it is, or what was added to it
                self._note(key, offsets)

    def save_if_changed(self) -> None:
        """Ask for a save if something was committed since the last one."""
        self.resets.save_if_changed()
        if self.saver.changes:
            self.saver.request()

    def rows(self, keys: Iterable[str]) -> dict[str, dict[int, int]]:
        """Return what is committed under some keys, `topic@group` each; those that have nothing are left out."""
        return {key: dict(self.table[key]) for key in keys if key in self.table}

    def is_since(self, group: str, topic: str, reset: str | None) -> bool:
        """Return True unless a row was reset after the reset of this id, which may be the only one; None if unknown."""
        return reset is None or self.resets.of(row_key(topic, group)) == reset

    @property
    def row_count(self) -> int:
        """How many pairs of a group and a topic have offsets."""
        return len(self.table)

    @property
    def keys(self) -> list[str]:
        """All that has offsets, as `topic@group`."""
        return list(self.table)

    def adopt(self, rows: Mapping[str, Mapping[int, int]], removed: Iterable[str]) -> None:
        """Take over rows of a master's table, whatever was here."""
        for key in removed:
            if self.table.pop(key, None) is not None:
                self._forget_key(key)
                self.saver.changes.remove(key)
                self.parts.note_removal()
        for key, offsets in rows.items():
            if self.table.get(key) != offsets:
                self.table[key] = dict(offsets)
                self._add_key(key)
                self.saver.changes.remove(key)
                self.saver.changes.rows[key] = dict(offsets)

    def figures(self) -> BoundFigures[ConsumerOffsets]:
        """Return the figures of this table."""
        return BoundFigures(_FIGURES, lambda: self)

    def snapshot(self) -> OffsetTable:
        """Return a copy that no later commit changes, in the form of RocketMQ's file."""
        return {key: dict(offsets) for key, offsets in self.table.items()}

    def _note(self, key: str, offsets: Mapping[int, int]) -> None:
        """Note what is to be saved: only the queues that changed."""
        self.saver.changes.rows.setdefault(key, {}).update(offsets)
        self.changed_keys.note(key)

    def _new_row(self, key: str) -> dict[int, int]:
        if len(self.table) >= self._limit:
            text = f"offsets of {self._limit} topics and groups are kept already (pyromqMaxOffsetRows)"
            raise BrokerError(text, limit="pyromqMaxOffsetRows")
        row = self.table[key] = {}
        self._add_key(key)
        return row

    def _add_key(self, key: str) -> None:
        topic, group = _split(key)
        self._topics_of.setdefault(group, {})[topic] = None
        self._groups_of.setdefault(topic, {})[group] = None

    def _remove(self, key: str) -> None:
        del self.table[key]
        self._forget_key(key)
        self.saver.changes.remove(key)
        self.parts.note_removal()
        self.resets.note(key)
        self.changed_keys.note(key)

    def _forget_key(self, key: str) -> None:
        topic, group = _split(key)
        for index, name, other in ((self._topics_of, group, topic), (self._groups_of, topic, group)):
            index[name].pop(other, None)
            if not index[name]:
                del index[name]

    def _whole(self) -> PrintTable:
        # Commits go on while it is printed. What is printed may be newer than asked for, which does no harm.
        rows = list(self.table.items())
        return lambda: OFFSETS.print((key, dict(offsets)) for key, offsets in rows)


_FIGURES: Final[tuple[Figure[ConsumerOffsets], ...]] = (
    Figure(
        "backward_commits",
        "Commits of an offset below the one committed before.",
        Kind.COUNTER,
        lambda offsets: offsets.backward_commits,
    ),
    Figure(
        "offset_rows",
        "Pairs of a group and a topic with committed offsets.",
        Kind.GAUGE,
        lambda offsets: offsets.row_count,
    ),
)


def _row_of_answer(key: str, offsets: dict[int, int]) -> tuple[int, dict[int, int]]:
    return len(key) + 8 + 27 * len(offsets), dict(offsets)  # 27: a queue id and an offset of all their digits


def _answer(_: DataVersion, rows: OffsetTable) -> ConsumerOffsetSerializeWrapper:
    return ConsumerOffsetSerializeWrapper(offset_table=rows)


def check_new_group(name: str) -> None:
    """Raise BrokerError if a group may not commit: otherwise names of any length could fill the table."""
    try:
        check_group(name)
    except LocalProtocolError as error:
        raise BrokerError(str(error)) from None


def _is_sound(key: str) -> bool:
    return len(key) <= _LONGEST_KEY


def row_key(topic: str, group: str) -> str:
    """Return the key of what a group has committed of a topic."""
    return topic + TOPIC_GROUP_SEPARATOR + group


def _split(key: str) -> tuple[str, str]:
    topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
    return topic, group
