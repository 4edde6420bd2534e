"""QUERY_MESSAGE (12): messages by key, for people and consoles that look for one."""

from __future__ import annotations

import asyncio

from pyromq.broker.parts import Parts
from pyromq.errors import BrokerError, QueryNotFound, StoreError
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.pull import QueryMessageRequestHeader, QueryMessageResponseHeader
from pyromq.remoting.connection import Connection
from pyromq.store.results import QueryResult


class QueryHandler:
    """Finds messages in the index. It may return other keys with the same hash; clients compare keys themselves."""

    def __init__(self, parts: Parts) -> None:
        self._store = parts.store

    async def query(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the newest messages with a key, or a unique key, that were stored within a time range."""
        header = request.header(QueryMessageRequestHeader)
        try:
            found = await self._find(header)
        except StoreError as error:
            raise BrokerError(f"the store cannot be read: {error}") from error
        if not found.records:
            raise QueryNotFound(f"no message of topic {header.topic} has the key {header.key}")
        reach = QueryMessageResponseHeader(
            index_last_update_timestamp=found.last_update_ms, index_last_update_phyoffset=found.last_update_offset
        )
        return response(request, header=reach, body=b"".join(found.records))

    async def _find(self, header: QueryMessageRequestHeader) -> QueryResult:
        count = self._store.config.unique_key_query_count if header.unique_key_query else header.max_num
        times = header.begin_timestamp, header.end_timestamp
        # In a thread: if a million messages have the key, this is a million steps through files.
        offsets = await asyncio.to_thread(self._store.find, header.topic, header.key, count, *times)
        return self._store.read_found(offsets, *times)
