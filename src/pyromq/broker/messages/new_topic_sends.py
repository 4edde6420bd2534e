"""NewTopicSends: sends to a topic that was just created wait until the table of topics is saved.

A message in a topic that a crash makes unknown would be lost, so its topic is saved first. If that fails, nothing was
stored, and the answer says so: a retry doubles nothing. Sends to all other topics do not depend on the table.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from pyromq.broker.tables.topic_table import TopicTable
from pyromq.errors import ServiceNotAvailable, SystemBusy
from pyromq.protocol.codes import ONEWAY_FLAG
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection
from pyromq.remoting.dispatch import error_answer

_MOST_HELD: Final = 10_000
_MOST_BYTES: Final = 64 << 20


class NewTopicSends:
    """Holds requests, and has them served again in the order in which they came."""

    def __init__(self, topics: TopicTable) -> None:
        self._topics = topics
        self._count = self._bytes = 0

    def hold(self, request: RemotingCommand, connection: Connection) -> None:
        """Serve a request again when all topics up to now are saved; raise SystemBusy if too many wait for that."""
        if self._count >= _MOST_HELD or self._bytes + len(request.body) > _MOST_BYTES:
            raise SystemBusy(f"{self._count} messages already wait until their new topic is saved")
        self._count += 1
        self._bytes += len(request.body)
        self._topics.when_saved(partial(self._go_on, request, connection))

    async def drained(self) -> None:
        """Wait until no request is held any more."""
        await self._topics.saver.finish()

    def _go_on(self, request: RemotingCommand, connection: Connection, saved: bool) -> None:
        self._count -= 1
        self._bytes -= len(request.body)
        if saved:
            connection.serve_again(request)
        elif not request.flag & ONEWAY_FLAG:
            error = ServiceNotAvailable("not stored: the table of topics could not be saved")
            connection.send(error_answer(request, error, connection).encode())
