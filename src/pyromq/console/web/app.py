"""The web application: from a request to the handler of its route, and back.

host       a name that is not ours is refused on loopback           guard
session    by cookie, by a trusted header, or everybody's           login/
role       that of the route                                        route
form       read, limited, its CSRF token compared                   form, guard
handler    gets a Visit; errors become pages or fragments           failures
audit      every POST leaves an entry, whatever became of it        audit
headers    on every answer                                          guard
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from msgspec.structs import replace as with_changes
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Mount
from starlette.routing import Route as WebRoute
from starlette.staticfiles import StaticFiles

from pyromq.console.audit import ConsoleAuditEntry, shown_fields
from pyromq.console.live.events import event_response
from pyromq.console.login.roles import UserRole
from pyromq.console.login.sessions import COOKIE, LoginSession
from pyromq.console.login.users import EVERYBODY, NOBODY
from pyromq.console.reading.snapshot import Snapshot
from pyromq.console.texts.catalog import Translator, translator, wanted_language
from pyromq.console.web.failures import NotFound, Refused, WebError, status_of, words_of
from pyromq.console.web.form import Form
from pyromq.console.web.guard import address_of, check_csrf, check_host, check_origin, secure
from pyromq.console.web.parts import ConsoleParts
from pyromq.console.web.route import Route
from pyromq.console.web.templating import fragment, render
from pyromq.console.web.visit import Visit
from pyromq.errors import PyroMQError

logger = logging.getLogger(__name__)

LOGIN_PATH = "/login"
_YEAR = 365 * 86400


class ConsoleApp:
    """Answers the requests of a table of routes."""

    def __init__(self, parts: ConsoleParts, routes: Sequence[Route]) -> None:
        self._parts = parts
        self._routes = routes
        self._paths = {route.path: route.role for route in routes if route.method == "GET"}
        self._web_routes = [WebRoute(route.path, _unused, methods=[route.method]) for route in routes]

    def web_routes(self) -> list[BaseRoute]:
        """Return the routes for Starlette."""
        rows: list[BaseRoute] = [
            WebRoute(route.path, partial(self._answer, route), methods=[route.method]) for route in self._routes
        ]
        rows.append(WebRoute("/live", self._live, methods=["GET"]))
        rows.append(Mount("/static", _Static(packages=[("pyromq.console", "static")])))
        return rows

    # --- one request

    async def _answer(self, route: Route, request: Request) -> Response:
        t = self.translator(request)
        try:
            check_host(request, self._parts.settings.host)
            session, token = self._session(request)
            if not session.user.may(route.role):
                return secure(self._refuse(route, request, session, t))
            response = await self._handle(route, request, session, t)
        except PyroMQError as error:
            response, token = _error(request, error, t), ""
        except Exception:
            logger.exception("the console cannot answer path=%s", request.url.path)
            response, token = (
                _error(request, PyroMQError(t("Something went wrong here; the server's log says what.")), t, 500),
                "",
            )
        if token:
            set_cookie(response, request, COOKIE, token)
        return secure(response)

    async def _handle(self, route: Route, request: Request, session: LoginSession, t: Translator) -> Response:
        if route.method != "POST":
            return await self._visit(route, request, session, t, Form())
        check_origin(request)
        form = await Form.read(request)
        if not route.own_csrf:
            check_csrf(request, form, session)
        return await self._visit(route, request, session, t, form)

    async def _visit(
        self, route: Route, request: Request, session: LoginSession, t: Translator, form: Form
    ) -> Response:
        visit = Visit(request, self._parts, session, await self._snapshot(route), t, form, self._paths)
        if route.method != "POST":
            try:
                return await route.handler(visit)
            except PyroMQError as error:
                return await self._error_page(visit, error)
        try:
            response = await route.handler(visit)
        except PyroMQError as error:
            self._note(visit, route, "failed", words_of(error))
            return await self._error_page(visit, error)
        except BaseException as error:
            self._note(visit, route, "failed", type(error).__name__)
            raise
        self._note(visit, route, "done")
        self._parts.reader.expire()
        return response

    async def _snapshot(self, route: Route) -> Snapshot:
        if route.role is UserRole.PUBLIC:
            return self._parts.reader.current or Snapshot(at=self._parts.clock.now())
        return await self._parts.reader.get()

    def translator(self, request: Request) -> Translator:
        """Return the texts in the language of a browser: what was chosen, else what it asks for."""
        chosen = request.cookies.get("language") or wanted_language(request.headers.get("accept-language", ""))
        return translator(chosen)

    # --- who

    def _session(self, request: Request) -> tuple[LoginSession, str]:
        """Return the session of a request, and the cookie to set if it is new."""
        sign_in, settings = self._parts.sign_in, self._parts.settings
        found = sign_in.sessions.find(request.cookies.get(COOKIE))
        user = sign_in.by_header(request) if settings.login else EVERYBODY
        if user is not None:
            if found is not None and found.user == user:
                return found, ""
            token, session = sign_in.sessions.begin(user)
            return session, token
        if found is not None and found.user.kind not in ("header", "open"):
            return found, ""
        return LoginSession(key="", user=NOBODY, csrf="", began=0.0, seen=0.0), ""

    def _refuse(self, route: Route, request: Request, session: LoginSession, t: Translator) -> Response:
        if session.user is NOBODY:
            if route.method == "GET" and request.headers.get("hx-request") != "true":
                whole = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                return RedirectResponse(f"{LOGIN_PATH}?next={quote(whole, safe='')}", 303)
            return _error(request, Refused(t("Your session has ended: sign in again.")), t, 401)
        if route.method == "POST":
            visit = Visit(request, self._parts, session, Snapshot(at=0), t, Form(), self._paths)
            self._note(visit, route, "refused", f"needs the role {route.role.word}")
        return _error(
            request,
            Refused(
                t(
                    "Your role {role} may not do this: it needs {needed}.",
                    role=session.user.role.word,
                    needed=route.role.word,
                )
            ),
            t,
        )

    def _note(self, visit: Visit, route: Route, result: str, reason: str = "") -> None:
        if route.own_csrf:
            return  # logins have lines of their own
        words, user = visit.words, visit.user
        self._parts.audit.add(
            ConsoleAuditEntry(
                at=self._parts.clock.now(),
                user=user.name,
                role=user.role.word,
                address=address_of(visit.request),
                action=words.action or f"{route.method} {route.path}",
                target=words.target or ", ".join(visit.path.values()),
                path=visit.request.url.path,
                fields=shown_fields(visit.form.all),
                before=words.before,
                after=words.after,
                result=result,
                reason=reason,
            )
        )

    async def _error_page(self, visit: Visit, error: PyroMQError) -> Response:
        if visit.is_htmx:
            return _error(visit.request, error, visit.t)
        return await visit.render("error.html", status_of(error), reason=words_of(error), code=status_of(error))

    # --- live pages

    async def _live(self, request: Request) -> Response:
        t = self.translator(request)
        try:
            check_host(request, self._parts.settings.host)
            check_origin(request)
            session, _ = self._session(request)
            inner, route = self._inner(request)
            if not session.user.may(route.role):
                return secure(_error(request, Refused(t("Your session has ended: sign in again.")), t, 401))
            if self._parts.hub.is_full:
                return secure(_error(request, WebError("too many open pages"), t, 503))
        except PyroMQError as error:
            return secure(_error(request, error, t))
        user = session.user
        reader = with_changes(session, key="", csrf="", notices=[])

        async def render() -> str:
            visit = Visit(inner, self._parts, reader, await self._parts.reader.get(), t, Form(), self._paths)
            visit.is_live = True
            response = await route.handler(visit)
            return bytes(response.body).decode()

        key = (inner.url.path, inner.url.query, t.language, user.name, user.role)
        return secure(event_response(self._parts.hub.follow(key, render)))

    def _inner(self, request: Request) -> tuple[Request, Route]:
        """Return the request for the page that a browser shows, and its route."""
        parts = urlsplit(request.query_params.get("page", ""))
        scope: dict[str, Any] = {
            **request.scope,
            "path": unquote(parts.path),
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "method": "GET",
            "root_path": "",
        }
        for route, web in zip(self._routes, self._web_routes, strict=True):
            match, more = web.matches(scope)
            if match is Match.FULL and route.live:
                return Request({**scope, **more}), route
        raise NotFound("no page that changes while one looks")


def console_app(app: ConsoleApp, more: Sequence[BaseRoute] = ()) -> Starlette:
    """Return the application with other routes before those of the console."""

    async def nothing(request: Request, error: Exception) -> Response:
        t = app.translator(request)
        return secure(_error(request, NotFound(t("There is no such page.")), t))

    return Starlette(routes=[*more, *app.web_routes()], exception_handlers={404: nothing, 405: nothing})


def set_cookie(response: Response, request: Request, name: str, value: str, **more: Any) -> None:
    """Set a cookie that scripts cannot read and that other sites do not send."""
    is_secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    response.set_cookie(name, value, httponly=True, samesite="strict", secure=is_secure, path="/", **more)


def _error(request: Request, error: PyroMQError, t: Translator, status: int | None = None) -> Response:
    code = status or status_of(error)
    if request.headers.get("hx-request") == "true":
        return HTMLResponse(fragment(words_of(error)), code)
    page = render("plain_error.html", {"t": t, "reason": words_of(error), "code": code, "theme": "auto"})
    return HTMLResponse(page, code)


async def _unused(request: Request) -> Response:
    raise AssertionError("only its pattern is used")


class _Static(StaticFiles):
    """Files of the package; their addresses change with them, so that browsers may keep them."""

    async def get_response(self, path: str, scope: Any) -> Response:
        response = await super().get_response(path, scope)
        if response.status_code == 200:
            response.headers["Cache-Control"] = f"public, max-age={_YEAR}, immutable"
        return secure(response)
