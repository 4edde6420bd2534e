"""Transactions: half messages whose end brokers do not know yet, and those that they gave up."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from pyromq.admin.transactions import HalfMessage
from pyromq.console.login.roles import UserRole
from pyromq.console.web.failures import NotFound
from pyromq.console.web.route import Route
from pyromq.console.web.visit import Visit
from pyromq.errors import NotSupported

MOST_SHOWN: Final = 200


async def transactions(visit: Visit) -> Response:
    """Show them."""
    given_up = visit.query.get("state") == "given-up"
    reason = visit.unavailable("half_messages")
    pending: list[HalfMessage] = []
    lost: list[HalfMessage] = []
    try:
        if not reason:
            pending, lost = await _some(visit, given_up=False), await _some(visit, given_up=True)
    except NotSupported as error:
        reason = str(error)
    return await visit.render(
        "transactions.html",
        reason=reason,
        pending=pending,
        lost=lost,
        given_up=given_up,
        rows=lost if given_up else pending,
        most=MOST_SHOWN,
        now_ms=visit.parts.clock.now_ms(),
    )


async def _some(visit: Visit, *, given_up: bool) -> list[HalfMessage]:
    source = visit.admin.transactions.given_up() if given_up else visit.admin.transactions.pending()
    found: list[HalfMessage] = []
    async for half in source:
        found.append(half)
        if len(found) >= MOST_SHOWN:
            break
    return found


async def resume(visit: Visit) -> Response:
    """Let brokers ask about a given-up transaction again."""
    wanted = visit.path["message_id"]
    async for half in visit.admin.transactions.given_up():
        if half.message.offset_message_id == wanted:
            await visit.admin.transactions.resume(half)
            visit.describe("resume transaction", half.message.message_id, after={"topic": half.topic})
            notice = visit.t("Brokers ask the producers of {group} about it again.", group=half.group)
            return visit.redirect("/transactions", notice)
    raise NotFound(visit.t("No such transaction is given up: it was resumed or decided."))


ROUTES: Final = (
    Route("GET", "/transactions", UserRole.VIEWER_WITHOUT_BODIES, transactions, live=True),
    Route("POST", "/transactions/{message_id}/resume", UserRole.OPERATOR, resume),
)
