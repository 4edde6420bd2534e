"""BrokerCalls: any request to a broker, and the exception for an answer other than success."""

from __future__ import annotations

from pyromq.client.net.unreachable import UnreachableBrokers
from pyromq.errors import AccessDenied, AccessRefused, BrokerError, RemotingError
from pyromq.protocol.acl import ACCESS_DENIED
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers import Header
from pyromq.remoting.client import RemotingClient

CALL_TIMEOUT = 3.0

_WITHOUT_CODE = (AccessDenied, AccessRefused)
_ERRORS = {int(kind.default_code): kind for kind in BrokerError.__subclasses__() if kind not in _WITHOUT_CODE}


def broker_error(code: int, remark: str | None) -> BrokerError:
    """Return the exception for an answer's code."""
    if remark is not None and remark.startswith(ACCESS_DENIED):
        return AccessDenied(remark, code)  # there is no code for it
    return _ERRORS.get(code, BrokerError)(remark or "", code)


class BrokerCalls:
    """Requests over connections that stay open."""

    def __init__(self, remoting: RemotingClient) -> None:
        self.remoting = remoting
        self.unreachable = UnreachableBrokers(remoting)

    async def call(self, address: str, command: RemotingCommand, timeout: float = CALL_TIMEOUT) -> RemotingCommand:
        """Return a broker's answer, whatever its code."""
        try:
            answer = await self.remoting.request(address, command, timeout)
        except RemotingError as error:
            self.unreachable.failed(address, error)
            raise
        self.unreachable.answered(address)
        return answer

    async def _ask(
        self, address: str, code: RequestCode, header: Header | None = None, body: bytes = b"", *, timeout: float
    ) -> RemotingCommand:
        answer = await self.call(address, request(code, header, body), timeout)
        if answer.code != ResponseCode.SUCCESS:
            error = broker_error(answer.code, answer.remark)
            self.unreachable.failed(address, error)
            raise error
        return answer
