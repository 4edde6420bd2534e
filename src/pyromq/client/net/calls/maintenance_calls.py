"""Requests that operators send to a broker to look after it: its settings, and what it shall delete."""

from __future__ import annotations

from collections.abc import Mapping

from pyromq.client.net.calls.base import CALL_TIMEOUT, BrokerCalls
from pyromq.errors import BrokerError
from pyromq.protocol.bodies import decode
from pyromq.protocol.bodies.cleaning import CleaningPreview
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.admin import ReadAuditLogRequestHeader

CLEANING_TIMEOUT = 15.0
"""Seconds for a broker to delete, and to tell its slaves."""


class MaintenanceCalls(BrokerCalls):
    """Typed requests to one broker."""

    async def change_settings(self, address: str, values: Mapping[str, str]) -> None:
        """Change settings while the broker runs; raises NoPermission for those that it does not let change."""
        await self._ask(address, RequestCode.UPDATE_BROKER_CONFIG, body=settings_text(values), timeout=CALL_TIMEOUT)

    async def audit_log(self, address: str, limit: int) -> list[bytes]:
        """Return the newest entries of the audit log of a broker or a name server, each a JSON object."""
        header = ReadAuditLogRequestHeader(limit=limit)
        answer = await self._ask(address, RequestCode.READ_AUDIT_LOG, header, timeout=CALL_TIMEOUT)
        return answer.body.splitlines()

    async def preview_cleaning(self, address: str) -> CleaningPreview | None:
        """Return what cleaning would delete; None if the broker is not one of ours."""
        try:
            answer = await self._ask(address, RequestCode.PREVIEW_CLEANING, timeout=CLEANING_TIMEOUT)
        except BrokerError as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                return None
            raise
        return decode(CleaningPreview, answer.body)

    async def delete_expired_files(self, address: str) -> None:
        """Have files of the log removed that are older than fileReservedTime, whatever the hour."""
        await self._ask(address, RequestCode.DELETE_EXPIRED_COMMITLOG, timeout=CLEANING_TIMEOUT)

    async def delete_expired_queues(self, address: str) -> None:
        """Have queues removed that their topics no longer have and in which nothing is left."""
        await self._ask(address, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, timeout=CLEANING_TIMEOUT)

    async def delete_unused_topics(self, address: str) -> None:
        """Have the queues of topics removed that the broker does not know."""
        await self._ask(address, RequestCode.CLEAN_UNUSED_TOPIC, timeout=CLEANING_TIMEOUT)


def settings_text(values: Mapping[str, str]) -> bytes:
    """Return settings as the lines of a properties file."""
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode()
