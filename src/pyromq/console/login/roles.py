"""Role: what a user of the console may do. Each role may do everything that those before it may."""

from __future__ import annotations

from enum import IntEnum


class UserRole(IntEnum):
    """The roles, in their order; every route names the first that may use it."""

    PUBLIC = 0
    """Nobody needs to sign in: the login page, and files such as the style sheet."""
    VIEWER_WITHOUT_BODIES = 1
    """Sees topics, groups and figures, but nothing of what messages hold."""
    VIEWER = 2
    """Sees messages too."""
    OPERATOR = 3
    """Changes topics, groups and messages; sends."""
    ADMIN = 4
    """Changes configuration and accounts."""

    @property
    def word(self) -> str:
        """The name in console.yml and on the page."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, word: str) -> UserRole:
        """Read a role that somebody can have; raise ValueError."""
        for role in cls:
            if role is not cls.PUBLIC and role.word == word:
                return role
        words = ", ".join(role.word for role in cls if role is not cls.PUBLIC)
        raise ValueError(f"{word!r} is no role: use {words}")
