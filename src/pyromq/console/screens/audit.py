"""Audit log: every change, through this console and at the servers, the newest first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct
from starlette.responses import Response

from pyromq.admin.maintenance.audit import AuditEntry
from pyromq.console.audit import ConsoleAuditEntry
from pyromq.console.login.roles import UserRole
from pyromq.console.web.listing import Column, Listing
from pyromq.console.web.route import Route
from pyromq.console.web.visit import Visit
from pyromq.errors import PyroMQError

MOST_READ: Final = 1_000
_LONGEST: Final = 4_000


class AuditRow(Struct, frozen=True, kw_only=True):
    """One change."""

    at: float
    source: str
    """`console`, or the name of the server that was asked."""
    who: str
    address: str
    action: str
    target: str
    result: str
    """done, failed or refused."""
    reason: str
    before: str
    after: str
    details: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """What a search looks at."""
        return " ".join((self.source, self.who, self.address, self.action, self.target, self.result, self.reason))


async def audit(visit: Visit) -> Response:
    """Show what was changed."""
    source = visit.query.get("source", "")
    ours = [_of_console(entry) for entry in visit.audit.entries(limit=MOST_READ)] if source != "servers" else []
    servers, silent = (await _of_servers(visit)) if source != "console" else ([], {})
    result = visit.query.get("result", "")
    rows = [row for row in (*ours, *servers) if not result or row.result == result]
    listing = Listing.of(
        rows,
        visit.query,
        columns=[Column("at", lambda row: row.at, True), Column("who", lambda row: row.who)],
        search=lambda row: row.text,
        sort="-at",
    )
    return await visit.render("audit.html", listing=listing, source=source, result=result, silent=silent)


async def _of_servers(visit: Visit) -> tuple[list[AuditRow], dict[str, str]]:
    try:
        found = await visit.admin.audit.list(MOST_READ)
    except PyroMQError as error:
        return [], {"": str(error)}
    return [_of_server(entry) for entry in found.entries], dict(found.silent)


def _of_console(entry: ConsoleAuditEntry) -> AuditRow:
    return AuditRow(
        at=entry.at,
        source="console",
        who=entry.user,
        address=entry.address,
        action=entry.action,
        target=entry.target,
        result=entry.result,
        reason=entry.reason,
        before=shown(entry.before),
        after=shown(entry.after),
        details=_pairs({"role": entry.role, "path": entry.path, **entry.fields}),
    )


def _of_server(entry: AuditEntry) -> AuditRow:
    is_done = entry.result == "SUCCESS"
    names = ("topic", "topicName", "name", "groupName", "consumerGroup", "group", "accessKey", "key")
    return AuditRow(
        at=_seconds(entry.time),
        source=entry.server,
        who="" if entry.account == "-" else entry.account,
        address=entry.from_.rpartition(":")[0] or entry.from_,
        action=entry.request.replace("_", " ").lower(),
        target=next((entry.details[name] for name in names if name in entry.details), entry.subject),
        result="done" if is_done else "failed",
        reason=entry.reason or ("" if is_done else entry.result),
        before=shown(entry.before),
        after=shown(entry.after),
        details=_pairs(entry.details),
    )


def _seconds(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def shown(value: Any) -> str:
    """Return a state as people read it; empty if there is none."""
    if value in (None, "", {}, []):
        return ""
    if isinstance(value, str):
        return value[:_LONGEST]
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()[:_LONGEST]


def _pairs(fields: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)[:_LONGEST]) for name, value in fields.items() if value and name != "csrf")


ROUTES: Final = (Route("GET", "/audit", UserRole.OPERATOR, audit, live=True),)
