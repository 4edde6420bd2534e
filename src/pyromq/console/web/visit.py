"""Visit: one request to the console, as its handler sees it. Its role, form and CSRF token are checked already."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from pyromq.admin.admin_client import AdminClient
from pyromq.console.audit import AuditLog
from pyromq.console.bodies.rendering import BodyRules
from pyromq.console.jobs import Jobs
from pyromq.console.login.roles import UserRole
from pyromq.console.login.sessions import LoginSession
from pyromq.console.login.users import User
from pyromq.console.reading.features import missing
from pyromq.console.reading.history import FigureHistory
from pyromq.console.reading.snapshot import Snapshot
from pyromq.console.texts.catalog import LANGUAGES, Translator
from pyromq.console.web.failures import Refused
from pyromq.console.web.form import Form
from pyromq.console.web.navigation import MENU
from pyromq.console.web.parts import ConsoleParts
from pyromq.console.web.settings import ConsoleSettings
from pyromq.console.web.templating import render


class ChangeWords(Struct):
    """The words of the audit entry of a change."""

    action: str = ""
    target: str = ""
    before: Any = None
    after: Any = None


class Visit:
    """What a handler gets."""

    def __init__(
        self,
        request: Request,
        parts: ConsoleParts,
        session: LoginSession,
        snapshot: Snapshot,
        t: Translator,
        form: Form,
        paths: Mapping[str, UserRole],
    ) -> None:
        """`paths` are the pages there are, and who may see them, for the menu."""
        self.request = request
        self.parts = parts
        self.session = session
        self.t = t
        self.form = form
        self.is_live = False
        """Whether the page is made for browsers that show it already."""
        self.words = ChangeWords()
        self._whole = snapshot
        self._paths = paths

    # --- what is asked for

    @property
    def user(self) -> User:
        """Who visits."""
        return self.session.user

    @property
    def path(self) -> Mapping[str, str]:
        """The parameters in the path."""
        return self.request.path_params

    @property
    def query(self) -> dict[str, str]:
        """The parameters behind the question mark."""
        return dict(self.request.query_params)

    def may(self, role: UserRole) -> bool:
        """Return True if the user may do what this role may."""
        return self.user.may(role)

    @property
    def sees_bodies(self) -> bool:
        """Whether the user may see what messages hold."""
        return self.may(UserRole.VIEWER)

    # --- what there is

    @property
    def admin(self) -> AdminClient:
        """The client to act with: the account's own if the user signed in with one, else the console's."""
        if self.user.account is None:
            return self.parts.admin()
        client = self.parts.sign_in.accounts.client(self.user)
        if client is None:
            raise Refused(self.t("Your session has ended: sign in again."))
        return client

    @cached_property
    def snapshot(self) -> Snapshot:
        """The cluster as this user may see it."""
        user, whole = self.user, self._whole
        if user.account is None or user.account.admin:
            return whole
        return replace(
            whole,
            topics={name: row for name, row in whole.topics.items() if user.sees_topic(name)},
            groups={name: row for name, row in whole.groups.items() if user.sees_group(name)},
        )

    @property
    def history(self) -> FigureHistory:
        """Rates, lag and disk of the last hours."""
        return self.parts.history

    @property
    def settings(self) -> ConsoleSettings:
        """How the console is set up."""
        return self.parts.settings

    @property
    def audit(self) -> AuditLog:
        """What was changed through the console."""
        return self.parts.audit

    @property
    def jobs(self) -> Jobs:
        """Work that goes on after its request."""
        return self.parts.jobs

    @cached_property
    def bodies(self) -> BodyRules:
        """What this user may see of bodies: `render` shows one, `seen` is what conditions and exports may know."""
        rules = self.parts.sign_in.masking_rules
        return BodyRules(rules, self.parts.schemas.ready, shows_bodies=self.sees_bodies)

    def unavailable(self, feature: str) -> str:
        """Return why the cluster cannot do something, empty if it can."""
        reason = missing(feature, self._whole)
        return self.t(reason) if reason else ""

    # --- what is answered

    def describe(self, action: str, target: str = "", *, before: Any = None, after: Any = None) -> None:
        """Give the words of the entry that the audit log gets for this change."""
        self.words = ChangeWords(action=action, target=target, before=before, after=after)

    async def render(self, template: str, status: int = 200, **context: Any) -> Response:
        """Return a page."""
        return HTMLResponse(render(template, {**self.context(), **context}), status)

    def redirect(self, path: str, notice: str = "", tone: str = "good") -> Response:
        """Send the browser to another page, which says the notice."""
        if notice:
            self.session.notify(notice, tone)
        if self.is_htmx:
            return Response(status_code=204, headers={"HX-Redirect": path})
        return RedirectResponse(path, 303)

    @property
    def is_htmx(self) -> bool:
        """Whether htmx asks, which shows fragments."""
        return self.request.headers.get("hx-request") == "true"

    def context(self) -> dict[str, Any]:
        """Return what every template gets."""
        snapshot = self._whole
        return {
            "t": self.t,
            "languages": LANGUAGES,
            "theme": _theme(self.request.cookies.get("theme", "")),
            "user": self.user,
            "may": self.may,
            "menu": [entry for entry in MENU if entry.path in self._paths and self.may(self._paths[entry.path])],
            "here": self.request.url.path,
            "here_whole": self.request.url.path + (f"?{self.request.url.query}" if self.request.url.query else ""),
            "csrf_token": "" if self.is_live else self.session.csrf,
            "notices": [] if self.is_live else self.session.take_notices(),
            "snapshot": self.snapshot,
            "age": self.parts.reader.age(snapshot) if snapshot.taken else 0.0,
            "clusters": sorted({broker.cluster for broker in snapshot.brokers}),
            "login": self.settings.login,
            "unavailable": self.unavailable,
            "history": self.history,
            "is_live": self.is_live,
        }


def _theme(cookie: str) -> str:
    return cookie if cookie in ("light", "dark") else "auto"
