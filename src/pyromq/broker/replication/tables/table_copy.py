"""TableCopy: a slave takes over its master's tables: what decides what a consumer gets goes with the log.

When the two meet, the slave takes all rows. What was committed here while they were apart, because clients found no
master, counts if it is greater and the master has not reset the group since, and the master is told. From then on the
slave follows what changes there, also an offset that goes back, and passes on what clients still commit here. So a
master that returns takes no group back, and a reset is never undone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from itertools import groupby
from typing import Final

from pyromq.broker.parts import Parts
from pyromq.broker.replication.master_calls import MasterCalls
from pyromq.broker.replication.tables.held_progress import HeldProgress, OffsetRows, is_progress
from pyromq.broker.replication.tables.own_commits import OwnCommits
from pyromq.broker.tables.delay_offsets import DelayProgress
from pyromq.broker.tables.queue_locks import LockKey
from pyromq.broker.tables.reset_ids import NEVER
from pyromq.errors import BrokerError, PyroMQError
from pyromq.protocol.bodies import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    LockBatchRequestBody,
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
    decode,
    encode,
)
from pyromq.protocol.bodies.clients import ConsumerFilterData
from pyromq.protocol.bodies.replication import ChangedTables, QueueLock, TableMarks, decode_tables
from pyromq.protocol.codes import LanguageCode, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers import Header
from pyromq.protocol.headers.offsets import UpdateConsumerOffsetRequestHeader
from pyromq.protocol.headers.replication import TableChangesRequestHeader
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import TOPIC_GROUP_SEPARATOR
from pyromq.remoting.client import RemotingClient
from pyromq.store.message_store import MessageStore
from pyromq.store.retention.retention import DiskLevel

logger = logging.getLogger(__name__)

_HOLD_MS: Final = 1_000
_SHORT_HOLD_MS: Final = 500
"""While progress waits for the log."""
_TIMEOUT: Final = 10.0
_CHANGES_TIMEOUT: Final = 4.0
"""For a request that is held for a second: a connection that was cut off may not recover soon, another one does."""
_PAUSE: Final = 1.0
_APACHES_PERIOD: Final = 5.0
_PASS_ON_PERIOD: Final = 0.5
"""How often the master is told what clients have committed here."""


class TableCopy:
    """Follows the tables of one master after the other; `follow` runs until it is cancelled."""

    def __init__(self, parts: Parts, store: MessageStore, remoting: RemotingClient) -> None:
        self._master_start = 0
        self._parts = parts
        self._store = store
        self._remoting = remoting
        self._progress = HeldProgress(parts.tables, store)
        self.own = OwnCommits(parts.offsets, parts.followers, store.config.root, parts.files)
        """What clients committed here and no master knows of."""

    async def follow(self, master: str, *, is_ours: bool) -> None:
        """Take over the tables of a master again and again."""
        self._progress.forget()
        session, marks = "", TableMarks()
        passing_on: asyncio.Task[None] | None = None
        try:
            while True:
                try:
                    if not is_ours:
                        await self._copy_apaches(master)
                    elif not session:
                        if passing_on is not None:
                            passing_on.cancel()
                        session, marks = await self.meet(master)
                        passing_on = asyncio.get_running_loop().create_task(self._pass_on(master))
                        continue
                    else:
                        session, marks = await self._copy_changes(master, session, marks)
                        continue
                except PyroMQError as error:
                    logger.warning("the master's tables cannot be copied now: %s", error)
                    session = ""
                await self._parts.clock.sleep(_PAUSE if is_ours else _APACHES_PERIOD)
        finally:
            if passing_on is not None:
                passing_on.cancel()
            self._parts.tables.locks.end_copy(self._parts.clock.monotonic())

    def free_to(self, start: int) -> int:
        """Return up to where, at most `start`, files of the log may be deleted here: what the master has deleted.

        It keeps files in which delayed messages or open transactions wait, and a slave may be master tomorrow. On a
        disk so full that files go whatever their age they go here too, as at a master.
        """
        is_full = self._store.cleaner.retention.level >= DiskLevel.ALL_FILES_GO
        return start if is_full else min(start, self._master_start)

    # --- a master of ours meets this slave

    async def meet(self, master: str) -> tuple[str, TableMarks]:
        """Take over all rows of a master, and tell it what was committed here meanwhile; raises PyroMQError."""
        pieces = [await self._ask_piece(master, 0)]
        while pieces[-1].has_more:
            pieces.append(await self._ask_piece(master, len(pieces)))
        await self._take_whole(master, pieces)
        return pieces[0].session, pieces[0].marks

    async def _take_whole(self, master: str, pieces: list[ChangedTables]) -> None:
        parts, first, last = self._parts, pieces[0], pieces[-1]
        topics = {name: row for piece in pieces for name, row in piece.topics.items()}
        groups = {name: row for piece in pieces for name, row in piece.groups.items()}
        self._master_start = first.log_start
        gone = parts.topics.by_name.keys() - topics.keys()
        # The master may have forgotten when it deleted a topic: then its log has none of the records any more.
        self._delete_topics(dict.fromkeys(gone, first.log_start) | first.topics_removed, gone)
        parts.topics.adopt(topics, gone, last.topics_version)
        parts.groups.adopt(groups, parts.groups.by_name.keys() - groups.keys(), last.groups_version)
        offsets = self._hold_progress(first, {key: row for piece in pieces for key, row in piece.offsets.items()})
        resets = {key: found for piece in pieces for key, found in piece.offset_resets.items()}
        known, mark = self.own.rows, self.own.mark
        own = self._committed_here(offsets, resets, known)
        rows = offsets | own
        parts.offsets.adopt(rows, {key for key in parts.offsets.keys if not is_progress(key)} - rows.keys())
        parts.offsets.resets.adopt_all(resets)
        locks = parts.tables.locks.begin_copy(_owners(piece.locks for piece in pieces), parts.clock.monotonic())
        filters = [row for piece in pieces for row in piece.filters]
        await self._take_filters(filters)
        theirs = {(row.topic, row.consumer_group) for row in filters}
        parts.tables.filters.discard(set(parts.tables.filters.keys) - theirs, parts.clients.consumers)
        await self._tell(master, own, known, offsets)
        self.own.told(mark)
        await self._tell_locks(master, locks)

    def _delete_topics(self, ends: dict[str, int], gone: Container[str]) -> None:
        """Delete what lies before these ends, once: topics that are gone, and those that came back since."""
        topics, cleaner = self._parts.topics, self._store.cleaner
        for name, log_end in ends.items():
            is_new = cleaner.deleted_at(name) < log_end
            if is_new or (name in gone and not topics.is_system(name) and self._store.queue_ids(name)):
                cleaner.delete_topic_before(name, log_end)

    def _committed_here(
        self, theirs: OffsetRows, resets: Mapping[str, str] | None, own: Mapping[str, str]
    ) -> OffsetRows:
        """Return the rows in which something was committed here, each offset the greater of both.

        A master's reset counts: what was committed before this broker heard of it does not. Apache's has no `resets`.
        """
        keys = [key for key, reset in own.items() if resets is None or resets.get(key, NEVER) == reset]
        return {key: _greater(row, theirs.get(key, {})) for key, row in self._parts.offsets.rows(keys).items()}

    async def _tell(self, master: str, own: OffsetRows, resets: Mapping[str, str], theirs: OffsetRows) -> None:
        for key, row in own.items():
            topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
            for queue_id, offset in row.items():
                if offset > theirs.get(key, {}).get(queue_id, -1):
                    header = UpdateConsumerOffsetRequestHeader(
                        consumer_group=group,
                        topic=topic,
                        queue_id=queue_id,
                        commit_offset=offset,
                        pyromq_forward=True,
                        pyromq_last_reset=resets.get(key),
                    )
                    await self._ask(master, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def _pass_on(self, master: str) -> None:
        """Tell the master again and again what clients have committed here, since the two met."""
        while True:
            await self._parts.clock.sleep(_PASS_ON_PERIOD)
            resets, mark = self.own.rows, self.own.mark
            rows = self._parts.offsets.rows(resets)
            with suppress(PyroMQError):  # it is asked for its tables, too: whoever does that says what is wrong
                await self._tell(master, rows, resets, {})
                self.own.told(mark)

    async def _tell_locks(self, master: str, locks: dict[LockKey, str]) -> None:
        """Renew for their holders the locks that a master which was restarted has forgotten."""
        rows = sorted((group, owner, queue) for (group, queue), owner in locks.items())
        for (group, owner), found in groupby(rows, lambda row: row[:2]):
            queues = [queue for _, _, queue in found]
            body = LockBatchRequestBody(consumer_group=group, client_id=owner, mq_set=queues)
            await self._ask(master, RequestCode.LOCK_BATCH_MQ, body=encode(body))

    # --- what changes there

    async def _copy_changes(self, master: str, session: str, marks: TableMarks) -> tuple[str, TableMarks]:
        header = self._header(session, 0, marks)
        answer = await self._ask(master, RequestCode.TABLE_CHANGES, header, timeout=_CHANGES_TIMEOUT)
        changed = decode_tables(answer.body)
        if changed.session != session or changed.is_whole:
            return "", TableMarks()  # the master has started anew, or does not know any more what changed
        await self._take(changed)
        return session, changed.marks

    async def _take(self, changed: ChangedTables) -> None:
        parts = self._parts
        self._master_start = changed.log_start
        if changed.topics or changed.topics_removed:
            gone = changed.topics_removed.keys() - changed.topics.keys()
            self._delete_topics(changed.topics_removed, gone)
            parts.topics.adopt(changed.topics, gone, changed.topics_version)
        if changed.groups or changed.groups_removed:
            parts.groups.adopt(changed.groups, changed.groups_removed, changed.groups_version)
        offsets = self._hold_progress(changed, changed.offsets)
        if offsets or changed.offsets_removed:
            untold = {key: reset for key, reset in self.own.rows.items() if key in offsets}
            own = self._committed_here(offsets, changed.offset_resets, untold)
            parts.offsets.adopt(offsets | own, changed.offsets_removed)
            parts.offsets.resets.adopt(changed.offset_resets)
        parts.tables.locks.adopt(_owners([changed.locks]), parts.clock.monotonic())
        parts.tables.filters.discard(changed.filters_removed, parts.clients.consumers)
        await self._take_filters(changed.filters)

    def _hold_progress(self, changed: ChangedTables, offsets: OffsetRows) -> OffsetRows:
        delays = DelayProgress(changed.delays.offsets, changed.delays.log_offset) if changed.delays else None
        others = self._progress.hold(changed.log_end, delays, offsets)
        self._progress.take_over()
        return others

    async def _take_filters(self, filters: Iterable[ConsumerFilterData]) -> None:
        for row in filters:
            self._parts.tables.filters.adopt(row)
            await self._parts.clock.sleep(0)  # compiling one takes up to 20 ms

    def _header(self, session: str, piece: int, marks: TableMarks) -> TableChangesRequestHeader:
        return TableChangesRequestHeader(
            broker_id=self._parts.config.slave_id,
            session=session,
            piece=piece,
            topics=marks.topics,
            groups=marks.groups,
            offsets=marks.offsets,
            filters=marks.filters,
            locks=marks.locks,
            delays=marks.delays,
            suspend_ms=_HOLD_MS if self._progress.is_empty else _SHORT_HOLD_MS,
        )

    async def _ask_piece(self, master: str, number: int) -> ChangedTables:
        header = self._header("", number, TableMarks())
        return decode_tables((await self._ask(master, RequestCode.TABLE_CHANGES, header)).body)

    # --- Apache's master

    async def _copy_apaches(self, master: str) -> None:
        parts = self._parts
        topics = decode(TopicConfigSerializeWrapper, (await self._ask(master, RequestCode.GET_ALL_TOPIC_CONFIG)).body)
        if topics.data_version != parts.topics.version:
            rows = topics.topic_config_table
            parts.topics.adopt(rows, parts.topics.by_name.keys() - rows.keys(), topics.data_version)
        groups = decode(
            SubscriptionGroupWrapper, (await self._ask(master, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body
        )
        if groups.data_version != parts.groups.version:
            found = groups.subscription_group_table
            parts.groups.adopt(found, parts.groups.by_name.keys() - found.keys(), groups.data_version)
        await self._copy_apaches_offsets(master)

    async def _copy_apaches_offsets(self, master: str) -> None:
        parts = self._parts
        answer = await self._ask(master, RequestCode.GET_ALL_CONSUMER_OFFSET)
        offsets = decode(ConsumerOffsetSerializeWrapper, answer.body).offset_table
        delays = await self._apaches_delays(master)
        # Asked last: all that the answers count was in its log by then.
        self._master_start, log_end = await MasterCalls(self._remoting, master).log_range()
        theirs = self._progress.hold(log_end, delays, {key: dict(row) for key, row in offsets.items()})
        self._progress.take_over()
        own, mark = self._committed_here(theirs, None, self.own.rows), self.own.mark
        parts.offsets.adopt(theirs | own, ())
        await self._tell(master, own, {}, theirs)
        self.own.told(mark)

    async def _apaches_delays(self, master: str) -> DelayProgress | None:
        try:
            answer = await self._ask(master, RequestCode.GET_ALL_DELAY_OFFSET)
        except BrokerError:
            return None  # one without delay levels refuses, and the offsets of groups matter more
        return DelayProgress(dict(decode(DelayOffsetSerializeWrapper, answer.body).offset_table))

    async def _ask(
        self, master: str, code: int, header: Header | None = None, *, body: bytes = b"", timeout: float = _TIMEOUT
    ) -> RemotingCommand:
        command = request(code, header, body, language=LanguageCode.JAVA)
        answer = await self._remoting.request(master, command, timeout)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.remark or "", answer.code)
        return answer


def _owners(pieces: Iterable[Iterable[QueueLock]]) -> dict[LockKey, str]:
    rows = (row for piece in pieces for row in piece)
    return {(row.group, MessageQueue(row.topic, row.broker_name, row.queue_id)): row.owner for row in rows}


def _greater(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    return {queue: max(one.get(queue, 0), other.get(queue, 0)) for queue in one.keys() | other.keys()}
