"""The two pages that every server has, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest

from pyromq.console.health import bind, health_app, serve
from pyromq.errors import CannotListen


def fetch(url: str) -> tuple[int, Any]:
    """Return status and JSON of a page."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


async def test_healthz_is_503_while_there_is_a_problem_and_names_it() -> None:
    problems: dict[str, str] = {}
    async with serve(health_app(lambda: problems, dict), bind("127.0.0.1", 0)) as url:
        assert await asyncio.to_thread(fetch, f"{url}/healthz") == (200, {"status": "ok"})
        problems["broker-a"] = "the store accepts no messages"
        assert await asyncio.to_thread(fetch, f"{url}/healthz") == (
            503,
            {"status": "unhealthy", "broker-a": "the store accepts no messages"},
        )


async def test_varz_shows_the_figures_of_the_moment() -> None:
    figures = {"messages_put": 1}
    async with serve(health_app(dict, lambda: figures), bind("127.0.0.1", 0)) as url:
        assert await asyncio.to_thread(fetch, f"{url}/varz") == (200, {"messages_put": 1})
        figures["messages_put"] = 2
        assert await asyncio.to_thread(fetch, f"{url}/varz") == (200, {"messages_put": 2})


def test_a_port_in_use_is_one_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"cannot listen on 127.0.0.1:{port}"):
            bind("127.0.0.1", port)
