"""QUERY_MESSAGE (12): messages by key, for people and consoles that look for one.

A key may have millions of messages, so the index is searched in a thread that does nothing else. A search looks at a
limited number of entries, and ends when its connection closes.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import Final

from pyromq.broker.parts import Parts
from pyromq.broker.pulls.thread_workers import ThreadWorkers
from pyromq.errors import BrokerError, QueryNotFound, StoreError, SystemBusy
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.pull import QueryMessageRequestHeader, QueryMessageResponseHeader
from pyromq.remoting.connection import Connection
from pyromq.store.index.key_query import MAX_OFFSET, QueryBudget
from pyromq.store.results import QueryResult

THREADS: Final = 1
MOST_WAITING: Final = 256
MOST_OF_A_CONNECTION: Final = 16


class QueryHandler:
    """Finds messages in the index. It may return other keys with the same hash; clients compare keys themselves."""

    def __init__(self, parts: Parts) -> None:
        self._access = parts.access
        self._store = parts.store
        self._reads = parts.reads
        self._workers = ThreadWorkers("pyromq-query", THREADS, MOST_WAITING)
        self._asked: Counter[Connection] = Counter()

    @property
    def is_working(self) -> bool:
        """Whether a search is under way."""
        return self._workers.unfinished > 0

    def close(self) -> None:
        """Begin no more searches."""
        self._workers.close()

    async def query(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the newest messages with a key, or a unique key, that were stored within a time range."""
        header = request.header(QueryMessageRequestHeader)
        if self._asked[connection] >= MOST_OF_A_CONNECTION:
            raise SystemBusy(f"{MOST_OF_A_CONNECTION} queries of this connection are under way")
        self._asked[connection] += 1
        try:
            found = await self._find(header, QueryBudget(is_given_up=lambda: connection.closed))
        except StoreError as error:
            raise BrokerError(f"the store cannot be searched: {error}") from error
        finally:
            self._asked[connection] -= 1
            if not self._asked[connection]:
                del self._asked[connection]
        records = self._access.readable(request, connection, header.topic, found.records)
        if not records:
            raise QueryNotFound(f"no message of topic {header.topic} has the key {header.key}")
        reach = QueryMessageResponseHeader(
            index_last_update_timestamp=found.last_update_ms, index_last_update_phyoffset=found.last_update_offset
        )
        return response(request, header=reach, body=b"".join(records))

    async def _find(self, header: QueryMessageRequestHeader, budget: QueryBudget) -> QueryResult:
        count = self._store.config.unique_key_query_count if header.unique_key_query else header.max_num
        times = header.begin_timestamp, header.end_timestamp
        before = MAX_OFFSET if header.pyromq_before is None else header.pyromq_before
        while True:
            offsets = await self._workers.run(self._store.find, header.topic, header.key, count, *times, budget, before)
            found = await self._reads.read(functools.partial(self._store.read_found, offsets, *times))
            if found.records or not offsets:
                return found
            before = offsets[-1]  # the index knows seconds: all of these were stored after the time asked for
