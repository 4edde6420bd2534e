"""Serving pages inside the process of a server."""

from __future__ import annotations

import asyncio
import socket
import urllib.request

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from pyromq.console.monitoring.http_server import bind, serve
from pyromq.errors import CannotListen


async def greet(_: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


async def test_an_application_is_served_while_the_block_runs() -> None:
    async with serve(Starlette(routes=[Route("/", greet)]), bind("127.0.0.1", 0)) as url:
        assert await asyncio.to_thread(fetch, url) == "hello"
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(fetch, url)


def test_a_port_in_use_is_one_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"cannot listen on 127.0.0.1:{port}"):
            bind("127.0.0.1", port)


def test_the_body_of_an_answer_does_not_wait_for_the_acknowledgement_of_its_head() -> None:
    with bind("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
