"""Sessions: who is signed in. They live in memory; a restart signs everybody out."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from typing import Final

from msgspec import Struct

from pyromq.clock import Clock
from pyromq.console.login.users import User

COOKIE: Final = "pyromq_console"
IDLE: Final = 8 * 3600.0
LONGEST: Final = 24 * 3600.0
MOST_SESSIONS: Final = 10_000
_MOST_NOTICES: Final = 5


class Notice(Struct, frozen=True):
    """What the next page says, once."""

    text: str
    tone: str = "good"


class LoginSession(Struct, kw_only=True):
    """One browser of one user."""

    key: str
    """A hash of what the cookie holds."""
    user: User
    csrf: str
    began: float
    seen: float
    notices: list[Notice] = []

    def notify(self, text: str, tone: str = "good") -> None:
        """Say something on the next page."""
        self.notices = [*self.notices, Notice(text, tone)][-_MOST_NOTICES:]

    def take_notices(self) -> list[Notice]:
        """Return what the page has to say, once."""
        found, self.notices = self.notices, []
        return found


class Sessions:
    """All sessions of a console."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_key: OrderedDict[str, LoginSession] = OrderedDict()

    def begin(self, user: User) -> tuple[str, LoginSession]:
        """Sign a user in; return what the cookie holds, and the session. A sign-in never takes over an old session."""
        token, now = secrets.token_urlsafe(32), self._clock.monotonic()
        session = LoginSession(key=_key(token), user=user, csrf=secrets.token_urlsafe(32), began=now, seen=now)
        self._by_key[session.key] = session
        while len(self._by_key) > MOST_SESSIONS:
            self._by_key.popitem(last=False)
        return token, session

    def find(self, token: str | None) -> LoginSession | None:
        """Return the session of a cookie; None if there is none, or it has expired."""
        session = self._by_key.get(_key(token)) if token else None
        if session is None:
            return None
        now = self._clock.monotonic()
        if now - session.seen > IDLE or now - session.began > LONGEST:
            del self._by_key[session.key]
            return None
        session.seen = now
        self._by_key.move_to_end(session.key)
        return session

    def end(self, session: LoginSession) -> None:
        """Sign out."""
        self._by_key.pop(session.key, None)

    def end_all(self, name: str) -> None:
        """Sign a user out everywhere: the password or the role changed."""
        for key in [key for key, session in self._by_key.items() if session.user.name == name]:
            del self._by_key[key]


def _key(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
