"""Dead letters: by group and cause, with the tries of each; export them, send them again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from typing import Final
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct
from starlette.responses import Response, StreamingResponse

from pyromq.admin.letters.causes import CauseCount, CauseGroup
from pyromq.admin.letters.letter import Letter, Wanted
from pyromq.admin.views.message_view import message_fields
from pyromq.console.bodies.rendering import RenderedBody
from pyromq.console.jobs import ConsoleJob
from pyromq.console.login.roles import UserRole
from pyromq.console.web.failures import FormError, NotFound
from pyromq.console.web.listing import Column, Listing
from pyromq.console.web.route import Route
from pyromq.console.web.visit import Visit
from pyromq.errors import LocalProtocolError, TopicNotFound
from pyromq.protocol.names import DLQ_PREFIX

MOST_READ: Final = 5_000
MOST_SHOWN: Final = 100
MOST_AT_ONCE: Final = 100
_BINS: Final = 48


class GroupRow(Struct, frozen=True):
    """A group that has or had dead letters."""

    group: str
    count: int


class LetterRow(Struct, frozen=True):
    """A dead letter in the list."""

    letter: Letter
    body: RenderedBody


class LetterArrivals(Struct, frozen=True, kw_only=True):
    """When dead letters came: one number for each step of time."""

    counts: tuple[int, ...]
    step: float
    first: float


class LettersRead(Struct, frozen=True, kw_only=True):
    """What was read of a group's dead letters."""

    rows: tuple[LetterRow, ...]
    causes: Sequence[CauseGroup]
    arrivals: LetterArrivals | None
    counted: int
    is_whole: bool


def letters_url(group: str, *more: str, **query: str) -> str:
    """Return the page of a group's dead letters, or one below it."""
    path = "/".join(["/dead-letters", quote(group, safe=""), *(quote(part, safe="") for part in more)])
    asked = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(asked)}" if asked else path


async def groups(visit: Visit) -> Response:
    """Show which groups have dead letters."""
    snapshot = visit.snapshot
    named = {topic.removeprefix(DLQ_PREFIX) for topic in snapshot.topics if topic.startswith(DLQ_PREFIX)}
    counts = {name: group.dead_letters for name, group in snapshot.groups.items() if group.dead_letters}
    rows = [GroupRow(name, counts.get(name, 0)) for name in named | counts.keys()]
    listing = Listing.of(
        rows,
        visit.query,
        columns=[Column("group", lambda row: row.group), Column("count", lambda row: row.count, True)],
        search=lambda row: row.group,
        sort="-count",
    )
    return await visit.render("dead_letters.html", listing=listing, letters_url=letters_url)


async def group(visit: Visit) -> Response:
    """Show the dead letters of a group."""
    name, query = visit.path["group"], visit.query
    where, cause = query.get("where", "").strip(), query.get("cause", "").strip()
    problem, read = "", LettersRead(rows=(), causes=(), arrivals=None, counted=0, is_whole=True)
    try:
        read = await _read(visit, name, Wanted(where=where or None, cause=cause or None))
    except LocalProtocolError as error:
        problem = str(error)
    except TopicNotFound:
        pass
    return await visit.render(
        "dead_letters_of.html",
        status=422 if problem else 200,
        group=name,
        where=where,
        cause=cause,
        read=read,
        problem=problem,
        job=visit.jobs.get(_job_key(name)),
        letters_url=letters_url,
        most=MOST_READ,
    )


async def _read(visit: Visit, name: str, wanted: Wanted) -> LettersRead:
    """Read the dead letters of a group as far as a page does; conditions see what this user sees."""
    count, rows, times = CauseCount(), [], []
    is_whole = True
    async for letter in _letters(visit, name, wanted):
        if count.count >= MOST_READ:
            is_whole = False
            break
        count.add(letter)
        rows.append(letter)
        times.append(letter.message.store_timestamp_ms / 1000)
    rows.sort(key=lambda letter: -letter.message.store_timestamp_ms)
    return LettersRead(
        rows=tuple(LetterRow(letter, visit.bodies.render(letter.message)) for letter in rows[:MOST_SHOWN]),
        causes=count.groups(),
        arrivals=arrivals(times),
        counted=count.count,
        is_whole=is_whole,
    )


async def _letters(visit: Visit, name: str, wanted: Wanted) -> AsyncIterator[Letter]:
    accepts = wanted.prepare()
    async for letter in visit.admin.dead_letters.read(name):
        if accepts(Letter(visit.bodies.seen(letter.message))):
            yield letter


def arrivals(times: Sequence[float]) -> LetterArrivals | None:
    """Return how many letters came in each of some equal steps of time; None if there are too few to tell."""
    if len(times) < 2:
        return None
    first, last = min(times), max(times)
    step = max((last - first) / (_BINS - 1), 1.0)
    counts = [0] * (int((last - first) / step) + 1)
    for at in times:
        counts[int((at - first) / step)] += 1
    return LetterArrivals(counts=tuple(counts), step=step, first=first)


async def letter(visit: Visit) -> Response:
    """Show a dead letter with its tries."""
    name = visit.path["group"]
    found = await _letter(visit, name, visit.path["message_id"])
    tries = await visit.admin.dead_letters.tries(found)
    bodies = [visit.bodies.render(one.message) for one in tries]
    hidden = visit.bodies.mask_of(found.message)
    return await visit.render(
        "dead_letter.html",
        group=name,
        letter=found,
        tries=tries,
        hidden=hidden,
        body=visit.bodies.render(found.message),
        shown=visit.query.get("view", ""),
        differing=[before.text != after.text for before, after in pairwise(bodies)],
        base=letters_url(name, found.message.message_id),
        letters_url=letters_url,
    )


async def _letter(visit: Visit, name: str, message_id: str) -> Letter:
    async for found in visit.admin.dead_letters.read(name, Wanted(ids=[message_id])):
        return found
    raise NotFound(visit.t("The group {group} has no dead letter {id}.", group=name, id=message_id))


async def export(visit: Visit) -> Response:
    """Send dead letters as JSON lines, as this user sees them."""
    name, query = visit.path["group"], visit.query
    letters = _letters(visit, name, Wanted(where=query.get("where") or None, cause=query.get("cause") or None))
    first = await anext(letters, None)  # what is wrong must be known before the answer begins

    async def lines() -> AsyncIterator[bytes]:
        if first is not None:
            yield _exported(visit, first)
        async for found in letters:
            yield _exported(visit, found)

    filename = quote(f"dead-letters-{name}.jsonl", safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{filename}"}
    return StreamingResponse(lines(), media_type="application/x-ndjson", headers=headers)


def _exported(visit: Visit, letter: Letter) -> bytes:
    fields = message_fields(visit.bodies.seen(letter.message))
    if not visit.sees_bodies:
        del fields["body"]
    return msgspec.json.encode({**fields, "cause": letter.cause, "first_topic": letter.topic}) + b"\n"


async def resend(visit: Visit) -> Response:
    """Send dead letters again: those that are ticked, or all that match."""
    name, form = visit.path["group"], visit.form
    ids = form.texts("id")
    if not ids and not form.flag("all"):
        raise FormError(visit.t("Tick some dead letters first, or choose all that match."))
    rate = form.number("rate", 0, least=0, most=100_000)
    to = form.text("to") or None
    wanted = Wanted(ids=ids) if ids else Wanted(where=form.text("where") or None, cause=form.text("cause") or None)
    wanted.prepare()
    admin = visit.admin
    selected = _selected(visit, name, wanted)

    async def work(job: ConsoleJob) -> None:
        job.progress = 0
        pause = 1 / rate if rate else 0.0
        clock = visit.parts.clock
        async for found in selected:
            await admin.dead_letters.resend(found, to)
            job.progress += 1
            if pause:
                await clock.sleep(pause)

    visit.jobs.start(_job_key(name), visit.user.name, work)
    what = {"ids": ids} if ids else {"where": wanted.where, "cause": wanted.cause}
    visit.describe("resend dead letters", name, after={**what, "to": to, "rate": rate or None})
    return visit.redirect(letters_url(name), visit.t("Dead letters of {group} are being sent again.", group=name))


def _selected(visit: Visit, name: str, wanted: Wanted) -> AsyncIterator[Letter]:
    return _letters(visit, name, wanted)


async def stop(visit: Visit) -> Response:
    """Stop sending."""
    name = visit.path["group"]
    stopped = visit.jobs.stop(_job_key(name))
    visit.describe("stop resending dead letters", name)
    return visit.redirect(letters_url(name), visit.t("Stopped.") if stopped else visit.t("Nothing is being sent."))


def _job_key(name: str) -> str:
    return f"resend {name}"


ROUTES: Final = (
    Route("GET", "/dead-letters", UserRole.VIEWER_WITHOUT_BODIES, groups, live=True),
    Route("GET", "/dead-letters/{group}", UserRole.VIEWER_WITHOUT_BODIES, group),
    Route("GET", "/dead-letters/{group}/export", UserRole.VIEWER_WITHOUT_BODIES, export),
    Route("POST", "/dead-letters/{group}/resend", UserRole.OPERATOR, resend),
    Route("POST", "/dead-letters/{group}/stop", UserRole.OPERATOR, stop),
    Route("GET", "/dead-letters/{group}/{message_id}", UserRole.VIEWER_WITHOUT_BODIES, letter),
)
