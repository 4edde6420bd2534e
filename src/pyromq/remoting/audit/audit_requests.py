"""What answers READ_AUDIT_LOG, at brokers and at name servers."""

from __future__ import annotations

import json

from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.admin import ReadAuditLogRequestHeader
from pyromq.remoting.audit.audit_trail import AuditTrail
from pyromq.remoting.connection import Connection
from pyromq.remoting.slices import AnswerSteps

_A_STEP = 20


class AuditHandlers:
    """Shows the audit log of a server."""

    def __init__(self, trail: AuditTrail) -> None:
        self._trail = trail

    def newest(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Return the newest entries as JSON lines, the oldest of them first."""
        lines: list[bytes] = []
        for entry in self._trail.newest(request.header(ReadAuditLogRequestHeader).limit):
            lines.append(json.dumps(entry).encode())
            if len(lines) % _A_STEP == 0:
                yield
        return response(request, body=b"\n".join(lines))
