"""Message: one message with all that is known about it, and what can be done with it."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import Struct
from starlette.responses import Response

from pyromq.admin.groups.snapshot import known_members
from pyromq.admin.messages.consumption import ConsumptionState, GroupConsumption
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.console.bodies.rendering import body_of
from pyromq.console.login.roles import UserRole
from pyromq.console.screens.messages.message_trace import Timeline, timeline
from pyromq.console.web.failures import FormError
from pyromq.console.web.route import Route
from pyromq.console.web.urls import message_url
from pyromq.console.web.visit import Visit
from pyromq.errors import NoRoute, PyroMQError
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import RESERVED_NAMES

TONES: Final = {
    ConsumptionState.CONSUMED: "good",
    ConsumptionState.FILTERED: "plain",
    ConsumptionState.NOT_YET: "note",
    ConsumptionState.OFFLINE: "warn",
    ConsumptionState.RETRYING: "warn",
    ConsumptionState.DEAD_LETTER: "bad",
    ConsumptionState.UNKNOWN: "plain",
}
_MOST_CLIENTS: Final = 200


class Consumer(Struct, frozen=True):
    """A client that could handle the message now."""

    group: str
    client_id: str
    language: str


async def message(visit: Visit) -> Response:
    """Show a message."""
    found = await _message(visit)
    trace, groups = await asyncio.gather(_trace(visit, found), _consumption(visit, found))
    own = visit.bodies.properties(found)
    return await visit.render(
        "message.html",
        message=found,
        body=visit.bodies.render(found),
        shown=visit.query.get("view", ""),
        own={name: value for name, value in own.items() if name not in RESERVED_NAMES},
        systems={name: value for name, value in own.items() if name in RESERVED_NAMES},
        trace=trace,
        groups=groups,
        tones=TONES,
        consumers=await _consumers(visit, groups),
        base=message_url(found.topic, visit.path["message_id"]),
        sent_to=found.properties.get(names.RETRY_TOPIC) or found.topic,
    )


async def _message(visit: Visit) -> MessageExt:
    return await visit.admin.messages.get(visit.path["message_id"], visit.path["topic"])


async def _trace(visit: Visit, found: MessageExt) -> Timeline:
    try:
        return timeline((await visit.admin.traces.of(found.message_id)).events)
    except NoRoute:
        return timeline(())
    except PyroMQError:
        return timeline(())  # somebody without the right to the trace topic still sees the message


async def _consumption(visit: Visit, found: MessageExt) -> list[GroupConsumption]:
    return await visit.admin.messages.consumed_by(found)


async def _consumers(visit: Visit, groups: list[GroupConsumption]) -> list[Consumer]:
    """Return the clients that are connected in the groups of the message."""
    if not visit.may(UserRole.OPERATOR):
        return []
    calls = AdminCalls(visit.admin.api.remoting)
    online = [one.group for one in groups if one.members]
    found: list[Consumer] = []
    for address in (await visit.admin.masters()).values():
        for group in online[:_MOST_CLIENTS]:
            members = known_members({address: await calls.group_connections(address, group)})
            found += [Consumer(group, client, one.connection.language.name) for client, one in members.items()]
    return sorted(
        {(one.group, one.client_id): one for one in found}.values(), key=lambda one: (one.group, one.client_id)
    )


async def download(visit: Visit) -> Response:
    """Send the body as a file, as far as this user sees it."""
    found = await _message(visit)
    body = body_of(visit.bodies.seen(found))
    headers = {"Content-Disposition": f'attachment; filename="{found.message_id}.bin"'}
    return Response(body, media_type="application/octet-stream", headers=headers)


async def resend(visit: Visit) -> Response:
    """Send a message again as a new one."""
    found = await _message(visit)
    to = visit.form.text("to")
    result = await visit.admin.messages.resend(found, to or None)
    visit.describe("resend message", found.message_id, after={"topic": result.queue.topic, "id": result.message_id})
    return visit.redirect(
        message_url(result.queue.topic, result.message_id),
        visit.t("Sent again to {topic}; this is the new message.", topic=result.queue.topic),
    )


async def consume(visit: Visit) -> Response:
    """Have one client handle a message now."""
    group, _, client_id = visit.form.required("consumer", visit.t("Client")).partition("\n")
    if not client_id:
        raise FormError(visit.t("Choose a client"))
    topic, message_id = visit.path["topic"], visit.path["message_id"]
    result = await visit.admin.messages.consume(message_id, topic=topic, group=group, client_id=client_id)
    visit.describe(
        "consume at one client", message_id, after={"group": group, "client": client_id, "result": result.result}
    )
    if result.succeeded:
        took = f"{result.seconds * 1000:.0f} ms"
        notice = visit.t("{client} took it: {result} after {time}.", client=client_id, result=result.result, time=took)
    else:
        notice = visit.t(
            "{client} failed: {result}. {why}", client=client_id, result=result.result, why=result.remark or ""
        )
    return visit.redirect(message_url(topic, message_id), notice, "good" if result.succeeded else "bad")


ROUTES: Final = (
    Route("GET", "/messages/{topic}/{message_id}", UserRole.VIEWER_WITHOUT_BODIES, message),
    Route("GET", "/messages/{topic}/{message_id}/body", UserRole.VIEWER, download),
    Route("POST", "/messages/{topic}/{message_id}/resend", UserRole.OPERATOR, resend),
    Route("POST", "/messages/{topic}/{message_id}/consume", UserRole.OPERATOR, consume),
)
