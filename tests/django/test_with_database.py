"""`with_database`: connections are closed around a handler as around a request."""

from __future__ import annotations

import pytest

from pyromq import django
from pyromq.errors import ClientError


def test_connections_are_looked_at_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(django, "close_old_connections", lambda: events.append("closed"))

    @django.with_database
    def handle(name: str) -> str:
        events.append(name)
        if name == "bad":
            raise ValueError(name)
        return name.upper()

    assert handle("good") == "GOOD"
    with pytest.raises(ValueError, match="bad"):
        handle(name="bad")
    assert events == ["closed", "good", "closed", "closed", "bad", "closed"]


def test_async_functions_are_refused_with_the_fix() -> None:
    async def handle() -> None: ...

    with pytest.raises(ClientError, match="make handle a `def`"):
        django.with_database(handle)
