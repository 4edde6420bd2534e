"""Serving pages inside the process of a server."""

from __future__ import annotations

import asyncio
import socket
import ssl
import urllib.request
from pathlib import Path
from urllib.error import URLError

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from pyromq.console.monitoring.http_server import bind, serve
from pyromq.errors import CannotListen, ConfigError
from pyromq.remoting.tls.server_tls import ENFORCING, TlsRules
from tests.certificates import Authority


async def greet(_: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


def fetch(url: str, context: ssl.SSLContext | None = None) -> str:
    with urllib.request.urlopen(url, timeout=30, context=context) as answer:
        text: str = answer.read().decode()
        return text


async def test_an_application_is_served_while_the_block_runs() -> None:
    async with serve(Starlette(routes=[Route("/", greet)]), bind("127.0.0.1", 0)) as url:
        assert await asyncio.to_thread(fetch, url) == "hello"
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(fetch, url)


async def test_the_port_takes_tls_and_clients_check_its_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.sign("server", "127.0.0.1")
    trusted = ssl.create_default_context(cafile=authority.file)
    app = Starlette(routes=[Route("/", greet)])
    async with serve(app, bind("127.0.0.1", 0), TlsRules(cert=cert, key=key)) as url:
        assert url.startswith("https://")
        assert await asyncio.to_thread(fetch, url, trusted) == "hello"
        with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
            await asyncio.to_thread(fetch, url)
        assert await asyncio.to_thread(fetch, url.replace("https", "http")) == "hello"  # tls.server.mode=permissive
    rules = TlsRules(cert=cert, key=key, mode=ENFORCING, client_auth="require", trust=authority.file)
    async with serve(app, bind("127.0.0.1", 0), rules) as url:
        assert await asyncio.to_thread(fetch, url, trusted) == "hello"  # people have no certificates
        with pytest.raises(OSError, match=r"closed|reset"):
            await asyncio.to_thread(fetch, url.replace("https", "http"))


async def test_a_certificate_that_cannot_be_read_is_one_clear_error(tmp_path: Path) -> None:
    with bind("127.0.0.1", 0) as listener, pytest.raises(ConfigError, match=r"nowhere\.pem"):
        async with serve(Starlette(), listener, TlsRules(cert=tmp_path / "nowhere.pem")):
            pass


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
