"""ConsoleSite: a console of a real cluster, and visitors with roles."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import httpx

from pyromq.admin import AdminClient
from pyromq.blocking import Portal
from pyromq.clock import SystemClock
from pyromq.console.console import Console
from pyromq.console.login.console_file import ConsoleFile, UserEntry, write_console_file
from pyromq.console.login.passwords import hash_password
from pyromq.console.login.roles import UserRole
from pyromq.console.monitoring.http_server import bind, serve
from pyromq.console.web.settings import ConsoleSettings
from pyromq.protocol.acl import Credentials

PASSWORD = "correct horse battery"
ROLES = [role for role in UserRole if role is not UserRole.PUBLIC]
_HASH = hash_password(PASSWORD)


def users_file(path: Path, **more: Any) -> None:
    """Write a console.yml with one user for each role, named like it."""
    users = {role.word: UserEntry(role=role.word, password=_HASH) for role in ROLES}
    write_console_file(path, ConsoleFile(users=users, **more))


class Visitor:
    """A browser without a screen: it keeps cookies and sends CSRF tokens."""

    def __init__(self, url: str) -> None:
        self.http = httpx.AsyncClient(base_url=url, timeout=20)

    async def get(self, path: str, **more: Any) -> httpx.Response:
        """Ask for a page."""
        return await self.http.get(path, **more)

    async def post(self, path: str, fields: dict[str, Any] | None = None, **more: Any) -> httpx.Response:
        """Send a form with the token of the session."""
        return await self.http.post(path, data={"csrf": await self.csrf(), **(fields or {})}, **more)

    async def csrf(self) -> str:
        """Return the token of the session."""
        found = re.search(r'name="csrf" content="([^"]*)"', (await self.get("/")).text)
        return found.group(1) if found else ""

    async def sign_in(self, name: str, password: str = PASSWORD) -> httpx.Response:
        """Send the login form."""
        return await self.http.post("/login", data={"name": name, "password": password, "next": "/"})


class ConsoleSite:
    """A console that runs."""

    def __init__(self, url: str, console: Console, admin: AdminClient) -> None:
        self.url = url
        self.console = console
        self.admin = admin

    @classmethod
    @asynccontextmanager
    async def open(
        cls, namesrv: str, data: Path | None = None, *, login: bool = False, credentials: Credentials | None = None
    ) -> AsyncIterator[Self]:
        """Run a console for a cluster, on the loop of the test."""
        async with AsyncExitStack() as stack:
            console = Console(ConsoleSettings(data=data, login=login), SystemClock())
            console.load()
            listener = stack.enter_context(bind("127.0.0.1", 0))
            url = await stack.enter_async_context(serve(console.app(), listener))
            await console.connect(namesrv, credentials)
            stack.push_async_callback(console.disconnect)
            admin = await stack.enter_async_context(AdminClient(namesrv, credentials=credentials))
            yield cls(url, console, admin)

    @asynccontextmanager
    async def visitor(self, role: UserRole | None = None) -> AsyncIterator[Visitor]:
        """Return a visitor, signed in with a role; None for one who is not."""
        visitor = Visitor(self.url)
        async with visitor.http:
            if role is not None:
                assert (await visitor.sign_in(role.word)).status_code == 303
            yield visitor


class BlockingSite:
    """A console on a thread of its own, for tests that drive a browser."""

    def __init__(
        self, namesrv: str, data: Path | None = None, *, login: bool = False, credentials: Credentials | None = None
    ) -> None:
        self._portal = Portal()
        self._opening = ConsoleSite.open(namesrv, data, login=login, credentials=credentials)
        self._site: ConsoleSite | None = None

    def __enter__(self) -> BlockingSite:
        self._site = self._portal.call(self._opening.__aenter__())
        return self

    def __exit__(self, *error: object) -> None:
        self._portal.call(self._opening.__aexit__(None, None, None))
        self._portal.close()

    @property
    def url(self) -> str:
        """The console's address."""
        assert self._site is not None
        return self._site.url

    @property
    def console(self) -> Console:
        """The console."""
        assert self._site is not None
        return self._site.console

    def ask(self, work: Any) -> Any:
        """Run a coroutine of the admin client, or anything else, on the console's loop."""
        return self._portal.call(work)

    @property
    def admin(self) -> AdminClient:
        """A client to look at what became of an act."""
        assert self._site is not None
        return self._site.admin
