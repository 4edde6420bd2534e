"""Sign in and out; choose a language."""

from __future__ import annotations

import math
from typing import Final

from starlette.responses import RedirectResponse, Response

from pyromq.console.login.roles import UserRole
from pyromq.console.login.sessions import COOKIE
from pyromq.console.login.users import NOBODY
from pyromq.console.texts.catalog import ENGLISH, LANGUAGES
from pyromq.console.web.app import set_cookie
from pyromq.console.web.guard import address_of
from pyromq.console.web.route import Route
from pyromq.console.web.visit import Visit

TOO_MANY, WRONG = 429, 401
_YEAR: Final = 365 * 86400


async def show_login(visit: Visit) -> Response:
    """Show the form; who is signed in goes on."""
    if visit.user != NOBODY:
        return RedirectResponse(_next(visit.query.get("next", "/")), 303)
    return await _form(visit, visit.query.get("next", "/"))


async def sign_in(visit: Visit) -> Response:
    """Check a password."""
    name, address, after = visit.form.text("name"), address_of(visit.request), visit.form.text("next")
    found = visit.parts.sign_in
    if pause := found.pause(name, address):
        seconds = math.ceil(pause)
        reason = visit.t("Too many wrong passwords: wait {seconds} s.", seconds=seconds)
        response = await _form(visit, after, reason, TOO_MANY)
        response.headers["Retry-After"] = str(seconds)
        return response
    user = await found.by_password(name, visit.form.raw("password"), address)
    if user is None:
        return await _form(visit, after, visit.t("Name or password is wrong."), WRONG)
    token, _ = found.sessions.begin(user)
    response = RedirectResponse(_next(after), 303)
    set_cookie(response, visit.request, COOKIE, token)
    return response


async def sign_out(visit: Visit) -> Response:
    """End the session."""
    visit.describe("sign out", visit.user.name)
    visit.parts.sign_in.sessions.end(visit.session)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE, path="/")
    return response


async def language(visit: Visit) -> Response:
    """Show the console in another language from now on."""
    wanted = visit.query.get("to", "")
    response = RedirectResponse(_next(visit.query.get("next", "/")), 303)
    set_cookie(response, visit.request, "language", wanted if wanted in LANGUAGES else ENGLISH, max_age=_YEAR)
    return response


async def _form(visit: Visit, after: str, reason: str = "", status: int = 200) -> Response:
    return await visit.render("login.html", status, after=_next(after), reason=reason)


def _next(path: str) -> str:
    """Return a page of ours to go to; never another site."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\", "/login")) and "\n" not in path
    return path if is_ours else "/"


ROUTES: Final = (
    Route("GET", "/login", UserRole.PUBLIC, show_login),
    Route("POST", "/login", UserRole.PUBLIC, sign_in, own_csrf=True),
    Route("POST", "/logout", UserRole.VIEWER_WITHOUT_BODIES, sign_out),
    Route("GET", "/language", UserRole.PUBLIC, language),
)
