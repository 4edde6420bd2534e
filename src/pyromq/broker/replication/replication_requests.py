"""What other brokers of ours ask: how this one's log stands, and bytes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyromq.broker.parts import Parts
from pyromq.broker.replication.epochs import EpochFile
from pyromq.errors import BrokerError
from pyromq.protocol.bodies.replication import ReplicationState, encode_state
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.replication import ReadLogRequestHeader
from pyromq.remoting.connection import Connection
from pyromq.store.message_store import MessageStore

MOST_BYTES: Final = 1 << 20


class ReplicationHandlers:
    """Answers about the log, on master and slave."""

    def __init__(
        self, parts: Parts, store: MessageStore, epochs: EpochFile, ha_address: str, is_master: Callable[[], bool]
    ) -> None:
        self._config = parts.config
        self._store = store
        self._epochs = epochs
        self._ha_address = ha_address
        self._is_master = is_master

    def state(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Tell how the log stands, and whether this broker is its master."""
        state = ReplicationState(
            name=self._config.name,
            broker_id=self._config.broker_id,
            store=self._epochs.store_id,
            is_master=self._is_master(),
            epochs=self._epochs.epochs,
            min_offset=self._store.min_physical_offset,
            max_offset=self._store.max_physical_offset,
            flushed_offset=self._store.flushed_offset,
            file_size=self._store.copied_log.file_size,
            ha_address=self._ha_address,
        )
        return response(request, body=encode_state(state))

    def read_log(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return bytes of the log, to the end of their file at most; none at its end."""
        header = request.header(ReadLogRequestHeader)
        first, end = self._store.min_physical_offset, self._store.max_physical_offset
        if not first <= header.offset <= end or header.length < 0:
            raise BrokerError(f"the log is from {first} to {end}: there is no offset {header.offset}")
        return response(request, body=self._store.copied_log.read(header.offset, min(header.length, MOST_BYTES)))
