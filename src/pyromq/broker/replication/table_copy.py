"""TableCopy: a slave takes over its master's tables: topics, groups, committed offsets.

When the two meet, the slave takes all rows. What was committed here while they were apart, because clients found no
master, counts if it is greater, and the master is told. From then on the slave follows what changes there, also an
offset that goes back. So a master that returns takes no group back, and a reset is never undone.
"""

from __future__ import annotations

import logging
from typing import Final

from pyromq.broker.parts import Parts
from pyromq.errors import BrokerError, PyroMQError
from pyromq.protocol.bodies import (
    ConsumerOffsetSerializeWrapper,
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
    decode,
)
from pyromq.protocol.bodies.replication import ChangedTables, TableMarks, decode_tables
from pyromq.protocol.codes import LanguageCode, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers import Header
from pyromq.protocol.headers.offsets import UpdateConsumerOffsetRequestHeader
from pyromq.protocol.headers.replication import TableChangesRequestHeader
from pyromq.protocol.names import TOPIC_GROUP_SEPARATOR
from pyromq.remoting.client import RemotingClient
from pyromq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

_HOLD_MS: Final = 5_000
_TIMEOUT: Final = 10.0
_PAUSE: Final = 1.0
_APACHES_PERIOD: Final = 5.0


class TableCopy:
    """Follows the tables of one master after the other; `follow` runs until it is cancelled."""

    def __init__(self, parts: Parts, store: MessageStore, remoting: RemotingClient) -> None:
        self._parts = parts
        self._store = store
        self._remoting = remoting
        self._met_mark = parts.offsets.changed_keys.mark
        """What was committed here after this mark came from clients while no master was there."""

    async def follow(self, master: str, *, is_ours: bool) -> None:
        """Take over the tables of a master again and again."""
        session, marks = "", TableMarks()
        while True:
            try:
                if not is_ours:
                    await self._copy_apaches(master)
                elif not session:
                    session, marks = await self.meet(master)
                else:
                    session, marks = await self._copy_changes(master, session, marks)
                    continue
            except PyroMQError as error:
                logger.warning("the master's tables cannot be copied now: %s", error)
                session = ""
            await self._parts.clock.sleep(_PAUSE if is_ours else _APACHES_PERIOD)

    # --- a master of ours

    async def meet(self, master: str) -> tuple[str, TableMarks]:
        """Take over all rows of a master, and tell it what was committed here meanwhile; raises PyroMQError."""
        pieces = [await self._ask_piece(master, 0)]
        while pieces[-1].has_more:
            pieces.append(await self._ask_piece(master, len(pieces)))
        first = pieces[0]
        offsets = {key: row for piece in pieces for key, row in piece.offsets.items()}
        topics = {name: row for piece in pieces for name, row in piece.topics.items()}
        groups = {name: row for piece in pieces for name, row in piece.groups.items()}
        own = self._committed_here(offsets)
        parts = self._parts
        parts.topics.adopt(topics, parts.topics.by_name.keys() - topics.keys(), pieces[-1].topics_version)
        parts.groups.adopt(groups, parts.groups.by_name.keys() - groups.keys(), pieces[-1].groups_version)
        parts.offsets.adopt(offsets | own, set(parts.offsets.keys) - offsets.keys() - own.keys())
        self._met_mark = parts.offsets.changed_keys.mark
        await self._tell(master, own, offsets)
        return first.session, first.marks

    def _committed_here(self, theirs: dict[str, dict[int, int]]) -> dict[str, dict[int, int]]:
        """Return the rows in which something was committed here meanwhile, each offset the greater of both."""
        mine = self._parts.offsets.rows(self._parts.offsets.changed_keys.since(self._met_mark))
        return {key: _greater(row, theirs.get(key, {})) for key, row in mine.items()}

    async def _tell(self, master: str, own: dict[str, dict[int, int]], theirs: dict[str, dict[int, int]]) -> None:
        for key, row in own.items():
            topic, _, group = key.partition(TOPIC_GROUP_SEPARATOR)
            for queue_id, offset in row.items():
                if offset > theirs.get(key, {}).get(queue_id, -1):
                    header = UpdateConsumerOffsetRequestHeader(
                        consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
                    )
                    await self._ask(master, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def _copy_changes(self, master: str, session: str, marks: TableMarks) -> tuple[str, TableMarks]:
        header = self._header(session, 0, marks)
        changed = decode_tables((await self._ask(master, RequestCode.TABLE_CHANGES, header)).body)
        if changed.session != session:
            return "", TableMarks()  # the master has started anew
        self._take(changed)
        return session, changed.marks

    def _take(self, changed: ChangedTables) -> None:
        parts = self._parts
        if changed.topics or changed.topics_removed:
            for name, log_end in changed.topics_removed.items():
                self._store.cleaner.delete_topic_before(name, log_end)
            parts.topics.adopt(changed.topics, changed.topics_removed, changed.topics_version)
        if changed.groups or changed.groups_removed:
            parts.groups.adopt(changed.groups, changed.groups_removed, changed.groups_version)
        if changed.offsets or changed.offsets_removed:
            parts.offsets.adopt(changed.offsets, changed.offsets_removed)
        self._met_mark = parts.offsets.changed_keys.mark

    def _header(self, session: str, piece: int, marks: TableMarks) -> TableChangesRequestHeader:
        return TableChangesRequestHeader(
            broker_id=self._parts.config.slave_id,
            session=session,
            piece=piece,
            topics=marks.topics,
            groups=marks.groups,
            offsets=marks.offsets,
            suspend_ms=_HOLD_MS,
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
        offsets = decode(
            ConsumerOffsetSerializeWrapper, (await self._ask(master, RequestCode.GET_ALL_CONSUMER_OFFSET)).body
        )
        theirs = {key: dict(row) for key, row in offsets.offset_table.items()}
        own = self._committed_here(theirs)
        parts.offsets.adopt(theirs | own, ())
        self._met_mark = parts.offsets.changed_keys.mark
        await self._tell(master, own, theirs)

    async def _ask(self, master: str, code: int, header: Header | None = None) -> RemotingCommand:
        answer = await self._remoting.request(master, request(code, header, language=LanguageCode.JAVA), _TIMEOUT)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.remark or "", answer.code)
        return answer


def _greater(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    return {queue: max(one.get(queue, 0), other.get(queue, 0)) for queue in one.keys() | other.keys()}
