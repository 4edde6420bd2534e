"""OtherBrokers: what a broker asks of those with the same name when masters change."""

from __future__ import annotations

from typing import Final

from pyromq.broker.parts import Parts
from pyromq.broker.registration import Registration
from pyromq.broker.replication.epochs import EpochFile
from pyromq.broker.replication.master_calls import MasterCalls
from pyromq.errors import BrokerError, PyroMQError, ReplicationRefused
from pyromq.protocol.bodies import ClusterInfo, decode
from pyromq.protocol.bodies.replication import ReplicationState, SteppedDown, decode_stepped_down
from pyromq.protocol.codes import LanguageCode, RequestCode, ResponseCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.replication import StepDownRequestHeader
from pyromq.remoting.client import RemotingClient

PREPARE: Final = "PREPARE"
DONE: Final = "DONE"
GIVE_UP: Final = "GIVE_UP"
FOLLOW: Final = "FOLLOW"

_TIMEOUT: Final = 2.0


class OtherBrokers:
    """Calls to the brokers that share a name."""

    def __init__(self, parts: Parts, epochs: EpochFile, remoting: RemotingClient, registration: Registration) -> None:
        self._parts = parts
        self._epochs = epochs
        self._remoting = remoting
        self._registration = registration

    async def step_down(
        self, address: str, step: str, *, epoch: int = 0, patience: float = 0.0, timeout: float = _TIMEOUT
    ) -> SteppedDown:
        """Tell a broker about this one as a successor; raise ReplicationRefused if it refuses, or RemotingError."""
        header = StepDownRequestHeader(
            step=step,
            broker_id=self._registration.slave_id,
            address=self._parts.address,
            store=self._epochs.store_id,
            epoch=epoch,
            patience_ms=round(patience * 1000),
        )
        command = request(RequestCode.STEP_DOWN, header, language=LanguageCode.JAVA)
        answer = await self._remoting.request(address, command, timeout)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise ReplicationRefused(f"the broker at {address} cannot hand over: it is not PyroMQ's")
        if answer.code != ResponseCode.SUCCESS:
            raise ReplicationRefused(f"the master at {address} does not hand over: {answer.remark}")
        return decode_stepped_down(answer.body)

    async def state(self, address: str) -> ReplicationState | None:
        """Return how a broker's log stands; None if it does not answer."""
        try:
            return await MasterCalls(self._remoting, address).state()
        except (PyroMQError, BrokerError):
            return None

    async def addresses(self) -> list[str]:
        """Return where all other brokers of this name are, as the first name server that answers knows them."""
        for server in self._parts.config.namesrv:
            try:
                command = request(RequestCode.GET_BROKER_CLUSTER_INFO, language=LanguageCode.JAVA)
                answer = await self._remoting.request(server, command, _TIMEOUT)
            except PyroMQError:
                continue
            if answer.code == ResponseCode.SUCCESS:
                known = decode(ClusterInfo, answer.body).broker_addr_table.get(self._parts.name)
                found = known.broker_addrs.values() if known is not None else ()
                return [address for address in found if address != self._parts.address]
        return []
