"""Pipelines: start them as jobs, watch their progress, read their logs and reports."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec import Struct
from starlette.responses import FileResponse, Response

from pyromq.admin.views.iso_times import iso_time
from pyromq.console.bodies.masking import MaskingRules
from pyromq.console.login.roles import UserRole
from pyromq.console.web.failures import NotFound
from pyromq.console.web.route import Route
from pyromq.console.web.visit import Visit
from pyromq.pipelines.catalog import CATALOG, Field, fields, load
from pyromq.pipelines.jobs.job_files import JobProgress
from pyromq.pipelines.jobs.jobs import JobView, why_unavailable

TONES: Final = {"running": "note", "done": "good", "stopped": "plain", "failed": "bad", "lost": "bad"}
_OURS: Final = frozenset({"namesrv", "out"})  # this cluster, and the directory of the job
_REPORT_POLICY: Final = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; frame-ancestors 'self'"
)


class OptionField(Struct, frozen=True, kw_only=True):
    """An option in the form that starts a pipeline."""

    name: str
    help: str
    kind: str
    """text, number, flag or choice."""
    default: str
    required: bool
    choices: tuple[str, ...] = ()


class Offer(Struct, frozen=True, kw_only=True):
    """A pipeline that can be started."""

    name: str
    summary: str
    options: tuple[OptionField, ...]


async def pipelines(visit: Visit) -> Response:
    """Show what can be started, and the jobs."""
    why = visit.t(why_unavailable()) if why_unavailable() else ""
    jobs = await asyncio.to_thread(visit.parts.pipelines().list)
    # The first time this imports all pipelines, half a second of CPU: not on the loop that answers everybody.
    offers = [] if why else await asyncio.to_thread(lambda: [_offer(name) for name in CATALOG if name != "orders"])
    summaries = {name: summary for name, summary in CATALOG.items() if name != "orders"}
    return await visit.render(
        "pipelines.html", why=why, jobs=jobs, offers=offers, tones=TONES, summaries=summaries, rates=_rates
    )


def _offer(name: str) -> Offer:
    found = [_option(one) for one in fields(load(name).Options) if one.name not in _OURS]
    return Offer(name=name, summary=CATALOG[name], options=tuple(found))


def _option(field: Field) -> OptionField:
    kind, choices = _kind(field.type)
    required = field.default is msgspec.NODEFAULT
    plain = "" if required or field.default in (None, msgspec.NODEFAULT) else str(field.default)
    return OptionField(
        name=field.name,
        help=field.help,
        kind=kind,
        default="true" if field.default is True else "" if field.default is False else plain,
        required=required,
        choices=choices,
    )


def _kind(annotation: Any) -> tuple[str, tuple[str, ...]]:
    if get_origin(annotation) is types.UnionType:
        annotation = next(part for part in get_args(annotation) if part is not types.NoneType)
    if get_origin(annotation) is Literal:
        return "choice", tuple(map(str, get_args(annotation)))
    return ("flag" if annotation is bool else "number" if annotation in (int, float) else "text"), ()


async def start(visit: Visit) -> Response:
    """Start a pipeline."""
    name = visit.path["pipeline"]
    if name not in CATALOG:
        raise NotFound(visit.t("There is no pipeline {name}.", name=name))
    given: dict[str, Any] = {}
    for option in (await asyncio.to_thread(_offer, name)).options:
        value: Any = visit.form.flag(option.name) if option.kind == "flag" else visit.form.text(option.name)
        if value != "" and value != option.default:
            given[option.name] = value
    job = await asyncio.to_thread(visit.parts.pipelines().start, name, given, visit.user.name)
    visit.describe(f"start pipeline {name}", job.id, after=given)
    return visit.redirect(f"/pipelines/{job.id}", visit.t("The job has started."))


async def job(visit: Visit) -> Response:
    """Show a job."""
    found, log = await asyncio.to_thread(_look, visit, visit.path["job"])
    return await visit.render(
        "pipeline_job.html",
        job=found,
        log=log,
        tones=TONES,
        rates=_rates(found.progress),
        now=visit.parts.clock.now(),
        started=iso_time(int(found.started * 1000)),
        report=next((name for name in found.results if name.endswith(".html")), ""),
    )


def _look(visit: Visit, job_id: str) -> tuple[JobView, str]:
    jobs = visit.parts.pipelines()
    return jobs.get(job_id), jobs.files(job_id).log_tail()


def _rates(progress: JobProgress) -> Sequence[float]:
    """Return messages a second between the samples of a job."""
    pairs = zip(progress.samples, progress.samples[1:], strict=False)
    return [max(done - before, 0) / max(at - since, 0.001) for (since, before), (at, done) in pairs]


async def stop(visit: Visit) -> Response:
    """Stop a job after its current batch; the second time at once."""
    job_id = visit.path["job"]
    await asyncio.to_thread(visit.parts.pipelines().stop, job_id)
    visit.describe("stop job", job_id)
    return visit.redirect(
        f"/pipelines/{job_id}", visit.t("It stops after its current batch. Stop it again to end it at once.")
    )


async def remove(visit: Visit) -> Response:
    """Forget a job and delete its files."""
    job_id = visit.path["job"]
    await asyncio.to_thread(visit.parts.pipelines().remove, job_id)
    visit.describe("remove job", job_id)
    return visit.redirect("/pipelines", visit.t("The job and its files are gone."))


async def result(visit: Visit) -> Response:
    """Send a file that a job wrote; a page is shown in a sandbox that runs nothing."""
    found = visit.parts.pipelines().get(visit.path["job"])
    name = visit.path["name"]
    if name not in found.results:
        raise NotFound(visit.t("The job has no file {name}.", name=name))
    path = Path(visit.parts.pipelines().files(found.id).results, name)
    if name.endswith(".html"):
        headers = {"Content-Security-Policy": _REPORT_POLICY, "X-Frame-Options": "SAMEORIGIN"}
        return FileResponse(path, media_type="text/html; charset=utf-8", headers=headers)
    _refuse_if_masked(visit, found)
    return FileResponse(path, media_type="application/octet-stream", filename=name)


def _refuse_if_masked(visit: Visit, found: JobView) -> None:
    """Raise NotFound if a file may hold fields that are masked for this user."""
    masks: MaskingRules = visit.bodies.masks
    if not visit.sees_bodies or len(masks):
        raise NotFound(visit.t("Files with messages are for users who see all fields."))


ROUTES: Final = (
    Route("GET", "/pipelines", UserRole.VIEWER_WITHOUT_BODIES, pipelines, live=True),
    Route("POST", "/pipelines/start/{pipeline}", UserRole.ADMIN, start),
    Route("GET", "/pipelines/{job}", UserRole.VIEWER_WITHOUT_BODIES, job, live=True),
    Route("GET", "/pipelines/{job}/files/{name}", UserRole.VIEWER, result),
    Route("POST", "/pipelines/{job}/stop", UserRole.ADMIN, stop),
    Route("POST", "/pipelines/{job}/remove", UserRole.ADMIN, remove),
)
