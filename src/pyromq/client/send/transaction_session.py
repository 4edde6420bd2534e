"""TransactionSession: what a TransactionProducer has while it is open."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from pyromq.client.background import Periodic, run_all
from pyromq.client.net.instance import ClientInstance
from pyromq.client.send.in_flight import InFlightLimit
from pyromq.client.send.local_transactions import (
    LocalTransactions,
    TransactionAnswers,
    TransactionFunction,
    TransactionOutcome,
)
from pyromq.client.send.prepare import MessagePreparer
from pyromq.client.send.producer_session import ProducerSession, ProducerSettings
from pyromq.client.trace.tracing import Tracing
from pyromq.clock import Clock
from pyromq.errors import PyroMQError
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.names import SELF_TEST_TOPIC, without_namespace

if TYPE_CHECKING:
    from pyromq.client.trace.spans import SendSpans

logger = logging.getLogger(__name__)

_ANNOUNCE_INTERVAL: Final = 30.0


class TransactionSession(ProducerSession):
    """One stay of a TransactionProducer in its group: brokers may ask it about transactions."""

    def __init__(
        self,
        settings: ProducerSettings,
        preparer: MessagePreparer,
        in_flight: InFlightLimit,
        clock: Clock,
        tracing: Tracing | None,
        spans: SendSpans | None,
        check: TransactionFunction,
    ) -> None:
        super().__init__(settings, preparer, in_flight, clock, tracing, spans)
        self.local = LocalTransactions()
        self._check = check
        self._group = settings.rules.group
        self._namespace = settings.client.namespace
        self._answers = TransactionAnswers(self._group, self._ask_check, self.delivery.run_end_hooks)
        announce = partial(_announce_everywhere, self.instance)
        self._announcing = Periodic("announcing to brokers", clock, _ANNOUNCE_INTERVAL, announce)

    async def start(self) -> None:
        """Join the group, and tell all brokers that they may ask about transactions from now on."""
        await super().start()
        self.delivery.handle.answer_checks(self._group, self._answers.ask)
        self._announcing.start()
        try:
            await _announce_everywhere(self.instance)
        except PyroMQError as error:
            logger.warning("no broker can ask about transactions yet: %s", error)
            self._announcing.wake()

    async def close(self, *, failed: bool) -> None:
        """Answer no more questions, and leave the group."""
        self.delivery.handle.stop_answering()
        try:
            await run_all(self._announcing.stop, self._answers.close, partial(super().close, failed=failed))
        finally:
            self.local.close()

    async def _ask_check(self, message: MessageExt) -> TransactionOutcome:
        message.topic = without_namespace(message.topic, self._namespace)
        return await self.local.run(self._check, message)


async def _announce_everywhere(instance: ClientInstance) -> bool:
    """Send a heartbeat to every broker: each may hold older transactions of this client's groups."""
    await instance.routes.refresh(SELF_TEST_TOPIC)  # which all brokers have
    return await instance.heartbeats.beat_due()
