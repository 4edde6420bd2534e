"""The requests by which an operator changes masters, and what answers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyromq.protocol.bodies.replication import Promotion, SteppedDown, encode_answer
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.replication import PromoteBrokerRequestHeader, StepDownRequestHeader
from pyromq.remoting.connection import Connection


class Handover(Protocol):
    """How brokers of one name change roles when an operator asks for it. Under failover the coordinator does it."""

    async def take_over(self, *, force: bool) -> Promotion:
        """Become master in place of the present one; raise BrokerError with the reason why not."""

    async def step_down(self, header: StepDownRequestHeader) -> SteppedDown:
        """Hear of a successor, and make room for it; raise BrokerError with the reason why not."""


class HandoverHandlers:
    """Answers PROMOTE_BROKER and STEP_DOWN, through the handover that the broker has now."""

    def __init__(self, handover: Callable[[], Handover], role: Callable[[], str]) -> None:
        self._handover = handover
        self._role = role

    def state(self, request: RemotingCommand) -> str:
        """Return what this broker is, for the audit log."""
        return self._role()

    async def promote(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Make this broker master."""
        header = request.header(PromoteBrokerRequestHeader)
        return response(request, body=encode_answer(await self._handover().take_over(force=header.force)))

    async def step_down(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Make room for a successor."""
        header = request.header(StepDownRequestHeader)
        return response(request, body=encode_answer(await self._handover().step_down(header)))
