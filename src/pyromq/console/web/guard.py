"""Checks that every request to the console passes before its handler: host, origin, CSRF token."""

from __future__ import annotations

import hmac
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from pyromq.console.login.sessions import LoginSession
from pyromq.console.monitoring.access import is_loopback
from pyromq.console.web.failures import Refused
from pyromq.console.web.form import Form

CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; font-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}


def check_host(request: Request, listens_at: str) -> None:
    """Raise Refused if a name that is not this machine's leads to its loopback address (DNS rebinding)."""
    if not is_loopback(listens_at):
        return
    name = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    if not is_loopback(name):
        raise Refused(f"the console listens on {listens_at} and does not answer for the name {name!r}")


def check_origin(request: Request) -> None:
    """Raise Refused if a page of another site sends the request."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Refused("a page of another site sent this request")
    origin = request.headers.get("origin")
    if origin and origin != "null" and urlsplit(origin).netloc != request.headers.get("host", ""):
        raise Refused("a page of another site sent this request")


def check_csrf(request: Request, form: Form, session: LoginSession) -> None:
    """Raise Refused unless a form or its header carries the token of the session."""
    given = request.headers.get(CSRF_HEADER) or form.raw(CSRF_FIELD)
    if not hmac.compare_digest(given.encode("utf-8", "replace"), session.csrf.encode()):
        raise Refused("the form has expired: load the page again")


def secure(response: Response) -> Response:
    """Add the headers that every answer has, unless its handler set its own."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def address_of(request: Request) -> str:
    """Return where a request comes from."""
    return request.client.host if request.client else ""
