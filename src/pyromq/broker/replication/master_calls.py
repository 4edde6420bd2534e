"""What a slave asks of its master over the ordinary port: of one of ours, and of Apache's."""

from __future__ import annotations

from typing import Final

from pyromq.errors import BrokerError, RemoteProtocolError
from pyromq.protocol.bodies import KVTable, decode
from pyromq.protocol.bodies.replication import ReplicationState, decode_state
from pyromq.protocol.codes import LanguageCode, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers import Header
from pyromq.protocol.headers.pull import ViewMessageByIdRequestHeader
from pyromq.protocol.headers.replication import ReadLogRequestHeader
from pyromq.remoting.client import RemotingClient

TIMEOUT: Final = 3.0


class MasterCalls:
    """Requests to one broker."""

    def __init__(self, remoting: RemotingClient, address: str) -> None:
        self._remoting = remoting
        self._address = address

    async def state(self) -> ReplicationState | None:
        """Return how its log stands; None if it is not one of ours."""
        answer = await self._ask(RequestCode.REPLICATION_STATE)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return None
        return decode_state(_checked(answer).body)

    async def log_range(self) -> tuple[int, int]:
        """Return where its log begins and ends, as its runtime information says."""
        answer = _checked(await self._ask(RequestCode.GET_BROKER_RUNTIME_INFO))
        table = decode(KVTable, answer.body).table
        try:
            return int(table["commitLogMinOffset"]), int(table["commitLogMaxOffset"])
        except (KeyError, ValueError):
            raise RemoteProtocolError(f"{self._address} does not say where its log begins") from None

    async def record(self, physical_offset: int) -> bytes:
        """Return the stored bytes of the record at an offset; empty if it gives none."""
        answer = await self._ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdRequestHeader(offset=physical_offset))
        return answer.body if answer.code == ResponseCode.SUCCESS else b""

    async def read_log(self, offset: int, length: int) -> bytes:
        """Return bytes of its log, to the end of their file at most; only one of ours has this."""
        answer = await self._ask(RequestCode.READ_LOG, ReadLogRequestHeader(offset=offset, length=length))
        return _checked(answer).body

    async def _ask(self, code: int, header: Header | None = None) -> RemotingCommand:
        command = request(code, header, language=LanguageCode.JAVA)
        return await self._remoting.request(self._address, command, TIMEOUT)


def _checked(answer: RemotingCommand) -> RemotingCommand:
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerError(answer.remark or "", answer.code)
    return answer
