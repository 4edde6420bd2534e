"""Cleaning the store: the periodic passes of the cleaner, and what administrators ask to be deleted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from pyromq.broker.parts import Parts
from pyromq.broker.pulls.disk_reads import DiskReads
from pyromq.broker.tables.table_followers import CHANGE_PATIENCE
from pyromq.clock import Clock
from pyromq.errors import BrokerError, ServiceNotAvailable
from pyromq.protocol.bodies import encode
from pyromq.protocol.bodies.cleaning import MOST_NAMED, CleaningPreview
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.admin import DeleteTopicInBrokerRequestHeader
from pyromq.remoting.connection import Connection
from pyromq.remoting.ticker import Ticker
from pyromq.store.retention.cleaner import Cleaner

T = TypeVar("T")


class Cleaning:
    """A pass over disk and log every so often; the queues follow in small steps between other work of the loop.

    A context manager: the first pass comes one period after it is entered, and none comes after it is left.
    """

    def __init__(self, cleaner: Cleaner, reads: DiskReads, clock: Clock, period: float) -> None:
        self._cleaner = cleaner
        self._reads = reads
        self._ticker = Ticker(clock, period, self._tick)
        self._is_following = self._is_stopped = False

    def __enter__(self) -> Self:
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_stopped = True
        self._ticker.stop()

    def delete_soon(self) -> None:
        """Remove expired files now and in the passes to come, whatever the hour."""
        self._cleaner.delete_soon()
        self._follow()

    def _tick(self) -> bool:
        self._cleaner.run()
        self._follow()
        return True

    def _follow(self) -> None:
        if not self._is_following:
            self._is_following = True
            self._go_on()

    def _go_on(self) -> None:
        self._reads.call(self._let_queues_follow)

    def _let_queues_follow(self) -> None:
        if not self._is_stopped and self._cleaner.go_on():
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._is_following = False


logger = logging.getLogger(__name__)


class StoreHandlers:
    """Removes what an administrator wants removed; the log keeps its records until they expire."""

    def __init__(self, parts: Parts, cleaner: Cleaner, cleaning: Cleaning) -> None:
        self._cleaner = cleaner
        self._cleaning = cleaning
        self._topics = parts.topics
        self._offsets = parts.offsets
        self._register = parts.register
        self._followers = parts.followers

    async def delete_topic(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Delete a topic, its queues and offsets; answer when that is durable, and slaves and name servers know."""
        topic = request.header(DeleteTopicInBrokerRequestHeader).topic
        if self._topics.is_system(topic):
            raise BrokerError(f"topic {topic} is the broker's own and cannot be deleted")
        # All at once: a send that comes while the disk is waited for makes the topic anew, with queues of its own.
        self._delete_queues(lambda: self._cleaner.delete_topic(topic))
        self._topics.remove(topic)
        self._offsets.remove_topics({topic})
        logger.info("topic deleted topic=%s by=%s", topic, connection.peer)
        await self._save()
        await self._followers.spread(CHANGE_PATIENCE, f"the deletion of topic {topic}")
        await self._register()
        return response(request)

    async def delete_unused_topics(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Delete the queues of topics that the table does not have."""
        unused = self._delete_queues(lambda: self._cleaner.delete_unused_topics(self._topics.by_name.__contains__))
        self._offsets.remove_topics(set(unused))
        await self._save()
        await self._followers.spread(CHANGE_PATIENCE, "the deletion of unused topics")
        return response(request)

    async def delete_expired_queues(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Delete the queues that topics no longer have and in which nothing is left."""
        self._offsets.remove_queues(self._delete_queues(lambda: self._cleaner.delete_expired_queues(self._has_queue)))
        await self._save_offsets()
        return response(request)

    def delete_expired_files(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Remove expired files of the log whatever the hour."""
        self._cleaning.delete_soon()
        return response(request)

    def preview(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return what the three requests above would delete, and delete nothing."""
        files, held = self._cleaner.expired_files()
        queues = self._cleaner.expired_queues(self._has_queue)
        topics = self._cleaner.unused_topics(self._topics.by_name.__contains__)
        found = CleaningPreview(
            expired_files=files,
            expired_bytes=held,
            expired_queues=queues[:MOST_NAMED],
            expired_queue_count=len(queues),
            unused_topics=topics[:MOST_NAMED],
            unused_topic_count=len(topics),
        )
        return response(request, body=encode(found))

    def _has_queue(self, name: str, queue_id: int) -> bool:
        topic = self._topics.get(name)
        return topic is not None and queue_id < topic.queues

    def _delete_queues(self, delete: Callable[[], T]) -> T:
        try:
            return delete()
        except OSError as error:
            logger.error("queues could not be deleted: %s", error)
            raise ServiceNotAvailable("the queues could not be deleted") from error

    async def _save(self) -> None:
        """Make a deletion durable, the offsets first: after a kill in between, groups read what is back once more.

        The other way round, offsets of the deleted topic would hide the first messages of the next one.
        """
        await self._save_offsets()
        try:
            await asyncio.to_thread(self._cleaner.save_deletions)
        except OSError as error:
            logger.error("deleted topics may come back after a crash, their list was not saved: %s", error)
            raise ServiceNotAvailable("the deletion could not be saved") from error
        if not await self._topics.saver.finish():
            raise ServiceNotAvailable("the table of topics could not be saved")

    async def _save_offsets(self) -> None:
        self._offsets.save_if_changed()
        if not await self._offsets.saver.finish():
            raise ServiceNotAvailable("the committed offsets could not be saved")
