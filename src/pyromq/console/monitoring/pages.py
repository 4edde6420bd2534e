"""The pages of a running server, for machines and for people with curl. A page is one row of `_PAGES`.

    /healthz   200 while the process is worth keeping, 503 when only a restart helps; what is wrong, either way
    /readyz    200 while clients are served, 503 with the reason while they are not
    /metrics   for Prometheus        /varz   the figures of every server        /connz /topicz /groupz   tables

The first two are open to everybody, the others to whom `Access` allows.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from html import escape
from typing import Any, Final, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from pyromq.console.monitoring import tables
from pyromq.console.monitoring.access import Access
from pyromq.console.monitoring.exposition import CONTENT_TYPE
from pyromq.console.monitoring.metrics import Metrics
from pyromq.console.monitoring.watched import Watched
from pyromq.errors import ServiceNotAvailable

UNAUTHORIZED, UNAVAILABLE = 401, 503


class Pages:
    """Answers requests about the servers of this process."""

    def __init__(self, watched: Watched, metrics: Metrics) -> None:
        self._watched = watched
        self._metrics = metrics

    async def index(self, _: Request) -> Response:
        """Name the pages there are."""
        rows = "".join(f'<li><a href="{page.path}">{page.path}</a> {escape(page.help)}</li>' for page in _PAGES)
        return HTMLResponse(f"<!doctype html><title>PyroMQ</title><h1>PyroMQ</h1><ul>{rows}</ul>{_NOTE}")

    async def health(self, _: Request) -> Response:
        """Say whether the process is worth keeping, and what is wrong."""
        problems = self._watched.problems()
        status = "failed" if any(each["needs_restart"] for each in problems) else "degraded" if problems else "ok"
        code = UNAVAILABLE if status == "failed" else 200
        return JSONResponse({"status": status, "problems": problems}, status_code=code)

    async def ready(self, _: Request) -> Response:
        """Say whether clients are served, and if not, why."""
        reasons = self._watched.reasons_not_ready()
        body = {"status": "not ready" if reasons else "ready", "reasons": reasons}
        return JSONResponse(body, status_code=UNAVAILABLE if reasons else 200)

    async def metrics(self, _: Request) -> Response:
        """Return the page for Prometheus."""
        return StreamingResponse(_pieces(await self._metrics.page()), media_type=CONTENT_TYPE)

    async def varz(self, _: Request) -> Response:
        """Return the figures of every server."""
        facts: dict[str, Any] = {"pid": os.getpid()}
        if self._watched.name_server is not None:
            facts["namesrv"] = self._watched.name_server.http_info()
        facts["brokers"] = [broker.http_info() for broker in self._watched.brokers]
        return JSONResponse(facts)

    async def connz(self, _: Request) -> Response:
        """Return the open connections."""
        return _json({"connections": await tables.connections(self._watched)})

    async def topicz(self, _: Request) -> Response:
        """Return the topics."""
        return _json({"topics": await tables.topics(self._watched)})

    async def groupz(self, _: Request) -> Response:
        """Return how far groups are."""
        return _json({"groups": await tables.groups(self._watched)})


class _Page(NamedTuple):
    path: str
    help: str
    answer: Callable[[Pages, Request], Coroutine[Any, Any, Response]]
    is_open: bool = False


_PAGES: Final = (
    _Page("/healthz", "is it alive, and what is wrong", Pages.health, is_open=True),
    _Page("/readyz", "does it serve clients, and if not, why", Pages.ready, is_open=True),
    _Page("/metrics", "for Prometheus", Pages.metrics),
    _Page("/varz", "all figures", Pages.varz),
    _Page("/connz", "connections and their clients", Pages.connz),
    _Page("/topicz", "topics", Pages.topicz),
    _Page("/groupz", "groups, and how far they are behind", Pages.groupz),
)
_NOTE: Final = "<p><code>pyromq console -n ADDR</code> starts a console for people.</p>"


def pages_app(watched: Watched, metrics: Metrics, access: Access) -> Starlette:
    """Build the pages of one port."""
    return Starlette(routes=[Route("/", Pages(watched, metrics).index), *page_routes(watched, metrics, access)])


def page_routes(
    watched: Watched, metrics: Metrics, access: Access, loop: asyncio.AbstractEventLoop | None = None
) -> list[BaseRoute]:
    """Return the routes of the pages; with a `loop`, they are made there, whichever loop serves them."""
    pages = Pages(watched, metrics)
    return [Route(page.path, _endpoint(page, pages, access, loop)) for page in _PAGES]


def _endpoint(
    page: _Page, pages: Pages, access: Access, loop: asyncio.AbstractEventLoop | None
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        objection = None if page.is_open else access.objection(request)
        if objection is not None:
            return PlainTextResponse(f"{objection}\n", UNAUTHORIZED, headers={"WWW-Authenticate": "Bearer"})
        try:
            if loop is None:
                return await page.answer(pages, request)
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(page.answer(pages, request), loop))
        except ServiceNotAvailable as error:  # a broker stops
            return PlainTextResponse(f"{error.remark}\n", UNAVAILABLE)

    return answer


async def _pieces(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _json(body: dict[str, Any]) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
