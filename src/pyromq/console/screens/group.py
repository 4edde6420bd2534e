"""One group: how far it is, who is in it, what blocks it; advise, reset, clone, change and delete it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from starlette.responses import Response

from pyromq.admin.groups.description import GroupDescription
from pyromq.admin.groups.offset_reset import ResetPlan, ResetTo
from pyromq.console.login.roles import UserRole
from pyromq.console.web.failures import FormError, NotFound
from pyromq.console.web.route import Route
from pyromq.console.web.urls import group_url
from pyromq.console.web.visit import Visit
from pyromq.errors import GroupNotFound
from pyromq.protocol.bodies import MessageModel
from pyromq.protocol.names import BUILT_IN_GROUPS, is_system_group

WATCH: Final = 1.0
"""Seconds for which offsets are watched, once a page is open: its first view shall not wait for that."""
FLAGS: Final = ("consume_enable", "consume_broadcast_enable")
NUMBERS: Final = {"retry_max_times": 1000, "retry_queue_nums": 1000}


async def group(visit: Visit) -> Response:
    """Show a group."""
    name = visit.path["group"]
    watch = WATCH if visit.is_live or visit.query.get("watch") else 0.0
    found = await _describe(visit, name, watch)
    long = visit.query.get("span") == "long"
    series = {what: visit.history.points(f"group/{name}/{what}", long=long) for what in ("lag", "behind", "out")}
    return await visit.render(
        "group.html",
        group=name,
        found=found,
        load=visit.snapshot.groups.get(name),
        series=series,
        long=long,
        watched=watch > 0 or not found.lag,
        broadcasting=found.model is MessageModel.BROADCASTING,
        topics=sorted({queue.queue.topic for queue in found.queues if not queue.queue.topic.startswith("%")}),
        settings=next(iter(found.settings.values()), None),
        own=visit.t("This is one of RocketMQ's own groups.")
        if name in BUILT_IN_GROUPS or is_system_group(name)
        else "",
        online=visit.t("Stop its members first: {names}", names=", ".join(one.client_id for one in found.members[:5]))
        if found.members
        else "",
    )


async def advice(visit: Visit) -> Response:
    """Watch a group for some seconds, and say how many threads and members it needs."""
    return await visit.render("group_advice.html", advice=await visit.admin.groups.advise(visit.path["group"]))


async def stacks(visit: Visit) -> Response:
    """Show what the threads of a member are doing."""
    client_id = visit.query.get("member", "")
    text = await visit.admin.groups.stacks(visit.path["group"], client_id)
    return await visit.render("group_stacks.html", group=visit.path["group"], client_id=client_id, text=text)


# --- changes


async def preview(visit: Visit) -> Response:
    """Show what a reset would do: what comes again, and what never comes."""
    return await visit.render("group_reset.html", plan=await _plan(visit, dict(visit.query)))


async def reset(visit: Visit) -> Response:
    """Move a group to other offsets."""
    name = visit.path["group"]
    plan = await _plan(visit, visit.form.all)
    before = {str(move.queue): move.before for move in plan.moves}
    visit.describe("reset offsets", name, before=before, after={str(move.queue): move.after for move in plan.moves})
    moves = await visit.admin.groups.reset(plan)
    text = visit.t(
        "Moved {group} in {count} queues: {again} messages come again, {skipped} never come.",
        group=name,
        count=len(moves),
        again=f"{plan.again:,}",
        skipped=f"{plan.skipped:,}",
    )
    return visit.redirect(group_url(name), text)


async def clone(visit: Visit) -> Response:
    """Copy the offsets of a group to another."""
    name, target = visit.path["group"], visit.form.required("target", visit.t("The name of the other group"))
    topic = visit.form.text("topic") or None
    visit.describe("clone offsets", target, after={"from": name, "topic": topic})
    copied = await visit.admin.groups.clone(name, target, topic)
    count = len({each for topics in copied.values() for each in topics})
    text = visit.t("{target} continues where {group} is, in {count} topics.", target=target, group=name, count=count)
    return visit.redirect(group_url(target), text)


async def change(visit: Visit) -> Response:
    """Change the settings of a group on all brokers."""
    name = visit.path["group"]
    changes: dict[str, bool | int] = {flag: visit.form.flag(flag) for flag in FLAGS}
    for field, most in NUMBERS.items():
        changes[field] = visit.form.number(field, least=0, most=most)
    visit.describe("change group", name, after=changes)
    await visit.admin.groups.set(name, changes)
    return visit.redirect(group_url(name), visit.t("Changed {group}.", group=name))


async def delete(visit: Visit) -> Response:
    """Delete a group; its name has to be typed."""
    name = visit.path["group"]
    if visit.form.text("confirm") != name:
        raise FormError(visit.t("Type {name} to confirm", name=name))
    visit.describe("delete group", name)
    brokers = await visit.admin.groups.delete(name)
    return visit.redirect("/groups", visit.t("Deleted {group} on {brokers}.", group=name, brokers=", ".join(brokers)))


# --- reading


async def _describe(visit: Visit, name: str, watch: float) -> GroupDescription:
    if not visit.user.sees_group(name):
        raise NotFound(visit.t("No broker knows the group {group}.", group=name))
    try:
        return await visit.admin.groups.describe(name, watch=watch)
    except GroupNotFound as error:
        raise NotFound(error.remark) from None


async def _plan(visit: Visit, asked: dict[str, str]) -> ResetPlan:
    topic = asked.get("topic", "")
    target = _target(visit, asked)
    return await visit.admin.groups.plan_reset(visit.path["group"], target, [topic] if topic else [])


def _target(visit: Visit, asked: dict[str, str]) -> ResetTo:
    match asked.get("to", ""):
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
        case "time":
            return _moment(visit, asked)
        case "offset" if asked.get("offset", "").isdecimal():
            return int(asked["offset"])
        case "offset":
            raise FormError(visit.t("An offset is a whole number."))
    raise FormError(visit.t("Choose where the group shall continue."))


def _moment(visit: Visit, asked: dict[str, str]) -> datetime:
    """Return the time that was chosen; browsers say it in their own zone, and how far that is from UTC."""
    try:
        local = datetime.fromisoformat(asked.get("at", ""))
        minutes = int(asked.get("zone", "0") or 0)
    except ValueError:
        raise FormError(visit.t("Choose a time.")) from None
    if local.tzinfo is not None:
        return local
    return datetime.fromtimestamp(local.replace(tzinfo=UTC).timestamp() + minutes * 60, UTC)


ROUTES: Final = (
    Route("GET", "/groups/{group}", UserRole.VIEWER_WITHOUT_BODIES, group, live=True),
    Route("GET", "/groups/{group}/advice", UserRole.VIEWER_WITHOUT_BODIES, advice),
    Route("GET", "/groups/{group}/stacks", UserRole.VIEWER, stacks),
    Route("GET", "/groups/{group}/reset", UserRole.VIEWER_WITHOUT_BODIES, preview),
    Route("POST", "/groups/{group}/reset", UserRole.OPERATOR, reset),
    Route("POST", "/groups/{group}/clone", UserRole.OPERATOR, clone),
    Route("POST", "/groups/{group}/settings", UserRole.OPERATOR, change),
    Route("POST", "/groups/{group}/delete", UserRole.OPERATOR, delete),
)
