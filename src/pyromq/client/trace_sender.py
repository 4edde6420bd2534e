"""TraceSender: the small producer behind the traces of one client, unknown to its user."""

from __future__ import annotations

import itertools
import os
from typing import Final

from pyromq.client.config import ClientConfig
from pyromq.client.delivery import Delivery, DeliveryRules
from pyromq.client.outgoing import Outbox
from pyromq.client.results import SendResult
from pyromq.client.sharing import borrow_instance, return_instance
from pyromq.clock import Clock
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import Message
from pyromq.protocol.names import MAX_GROUP_LENGTH

_TIMEOUT: Final = 5.0
_RETRIES: Final = 2
_COMPRESS_OVER: Final = 4096
_MAX_MESSAGE_SIZE: Final = 256 * 1024
_LONGEST_GROUP: Final = MAX_GROUP_LENGTH - 55  # of the traced client, inside the name of this producer's
_numbers = itertools.count(1)


class TraceSender:
    """Sends trace messages under the group that Apache's client would use; all of a process share one connection."""

    def __init__(self, config: ClientConfig, group: str, kind: str, clock: Clock) -> None:
        addresses = config.namesrv if isinstance(config.namesrv, str) else ";".join(config.namesrv)
        self._group = f"_INNER_TRACE_PRODUCER-{group[:_LONGEST_GROUP]}-{kind}-{next(_numbers)}"
        # With the process, unlike Apache's: two on one machine are two clients.
        name = f"PID_CLIENT_INNER_TRACE_PRODUCER_{addresses}#{os.getpid()}"
        self._config = ClientConfig(namesrv=config.namesrv, instance_name=name, credentials=config.credentials)
        self._clock = clock
        self._outbox = Outbox(clock, max_message_size=_MAX_MESSAGE_SIZE, compress_over=_COMPRESS_OVER, namespace=None)
        self._delivery: Delivery | None = None

    def open(self) -> None:
        """Open it; nobody is asked before the first trace message."""
        instance = borrow_instance(self._config, self._clock)
        instance.add_producer(self._group)
        instance.start()
        rules = DeliveryRules(
            group=self._group,
            namespace=None,
            topic_queues=self._config.topic_queues,
            retries=_RETRIES,
            retry_not_stored=False,
        )
        self._delivery = Delivery(instance, rules)

    async def send(self, message: Message) -> SendResult:
        """Send one trace message."""
        if self._delivery is None:
            raise ClientError("traces are written only while their client is open")
        outgoing = self._outbox.prepare(message)
        await self._outbox.compress(outgoing)
        return await self._delivery.send_anywhere(outgoing, _TIMEOUT)

    @property
    def forked(self) -> bool:
        """Whether this process was forked from the one that opened it."""
        return self._delivery is not None and self._delivery.instance.forked

    async def close(self) -> None:
        """Leave."""
        delivery, self._delivery = self._delivery, None
        if delivery is not None:
            await delivery.instance.remove_producer(self._group)
            await return_instance(delivery.instance)
