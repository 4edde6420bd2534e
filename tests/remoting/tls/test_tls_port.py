"""One port for plain and encrypted connections, on both event loops."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from pyromq.clock import SystemClock
from pyromq.errors import ConfigError, ConnectFailed, ConnectionLost
from pyromq.protocol.command import RemotingCommand, request, response
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.connection import Connection
from pyromq.remoting.server import RemotingServer
from pyromq.remoting.tls import tls_port
from pyromq.remoting.tls.client_tls import Tls
from pyromq.remoting.tls.server_tls import ServerTls, TlsRules
from pyromq.testing import eventually
from tests.certificates import Authority
from tests.remoting.helpers import ECHO, FakeClock

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


@pytest.fixture(params=[*LOOPS])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Run a test on one of the loops."""

    def run_on(test: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(asyncio.wait_for(test, 60))

    return run_on


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def rules(authority: Authority, **more: Any) -> TlsRules:
    cert, key = authority.sign("server", "127.0.0.1", "localhost")
    return TlsRules(cert=cert, key=key, **more)


def tell(command: RemotingCommand, connection: Connection) -> RemotingCommand:
    return response(command, remark="encrypted" if connection.is_encrypted else "plain", body=command.body)


@asynccontextmanager
async def serving(wanted: TlsRules, clock: Any = None) -> AsyncIterator[RemotingServer]:
    clock = clock or SystemClock()
    async with (
        ServerTls(wanted, clock) as tls,
        RemotingServer({ECHO: tell}, host="127.0.0.1", port=0, clock=clock, tls=tls) as server,
    ):
        yield server


async def ask(server: RemotingServer, tls: Tls | None, host: str = "127.0.0.1", body: bytes = b"") -> str:
    async with RemotingClient(SystemClock(), tls=tls) as client:
        answer = await client.request(f"{host}:{server.port}", request(ECHO, body=body), 10)
        assert answer.body == body
        return answer.remark or ""


def test_permissive_serves_both(authority: Authority, run: Any) -> None:
    async def test() -> None:
        async with serving(rules(authority)) as server:
            trusted = Tls(ca_file=str(authority.file))
            assert await ask(server, None) == "plain"
            assert await ask(server, trusted) == "encrypted"
            assert await ask(server, trusted, "localhost", b"x" * 3_000_000) == "encrypted"
            assert await ask(server, None, body=b"x" * 3_000_000) == "plain"

    run(test())


def test_enforcing_closes_plain_connections_and_says_why(
    authority: Authority, run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with serving(rules(authority, mode="enforcing")) as server:
            with pytest.raises(ConnectionLost):
                await ask(server, None)
            assert await ask(server, Tls(ca_file=str(authority.file))) == "encrypted"

    run(test())
    assert "it does not speak TLS, and tls.server.mode is enforcing" in caplog.text


def test_clients_check_who_signed_the_certificate_and_the_host_name(
    authority: Authority, tmp_path: Path, run: Any
) -> None:
    cert, key = authority.sign("elsewhere", "other.example")
    stranger = Authority(tmp_path, "stranger")

    async def test() -> None:
        async with serving(TlsRules(cert=cert, key=key)) as server:
            with pytest.raises(ConnectFailed, match="certificate is not accepted: IP address mismatch"):
                await ask(server, Tls(ca_file=str(authority.file)))
            with pytest.raises(ConnectFailed, match="certificate is not accepted: Hostname mismatch"):
                await ask(server, Tls(ca_file=str(authority.file)), "localhost")
            with pytest.raises(ConnectFailed, match="certificate is not accepted"):
                await ask(server, Tls(ca_file=str(stranger.file)))
            with pytest.raises(ConnectFailed, match="certificate is not accepted"):
                await ask(server, Tls())
            assert await ask(server, Tls(verify=False)) == "encrypted"
            assert await ask(server, Tls(ca_file=str(cert), pinned=True)) == "encrypted"

    run(test())


@pytest.mark.parametrize("wanted", ["optional", "require"])
def test_certificates_of_clients(authority: Authority, tmp_path: Path, run: Any, wanted: str) -> None:
    own_cert, own_key = authority.sign("client", password="open sesame")
    false_cert, false_key = Authority(tmp_path, "stranger").sign("liar")
    ca_file = str(authority.file)
    with_own = Tls(ca_file=ca_file, cert_file=str(own_cert), key_file=str(own_key), key_password="open sesame")

    async def test() -> None:
        async with serving(rules(authority, trust=authority.file, client_auth=wanted)) as server:
            assert await ask(server, with_own) == "encrypted"
            false = Tls(ca_file=ca_file, cert_file=str(false_cert), key_file=str(false_key))
            with pytest.raises((ConnectFailed, ConnectionLost)):
                await ask(server, false)
            if wanted == "optional":
                assert await ask(server, Tls(ca_file=ca_file)) == "encrypted"
            else:
                with pytest.raises((ConnectFailed, ConnectionLost)):
                    await ask(server, Tls(ca_file=ca_file))

    run(test())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_of_tls_are_refused(authority: Authority, run: Any) -> None:
    async def test() -> None:
        async with serving(rules(authority)) as server:
            for version, is_fine in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
                context = ssl.create_default_context(cafile=str(authority.file))
                context.set_ciphers("DEFAULT:@SECLEVEL=0")
                context.minimum_version = context.maximum_version = version
                connecting = asyncio.open_connection("127.0.0.1", server.port, ssl=context)
                if is_fine:
                    (await connecting)[1].close()
                else:
                    with pytest.raises((ssl.SSLError, ConnectionError)):
                        await connecting

    run(test())


@pytest.mark.parametrize("sent", [b"", b"\x16", b"\x16\x03\x01\x00\xff" + b"x" * 50])
def test_who_says_nothing_or_half_a_greeting_is_closed(
    authority: Authority, run: Any, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(tls_port, "HANDSHAKE_TIMEOUT", 0.2)

    async def test() -> None:
        clock = FakeClock()
        async with serving(rules(authority), clock) as server:
            before = clock.waiting
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(sent)
            if not sent:
                await eventually(lambda: clock.waiting > before)
                clock.advance(10.1)
            with suppress(ConnectionResetError):
                await reader.read()  # it ends: the server has closed the connection
            writer.close()

    run(test())


def test_silent_connections_do_not_pile_up(authority: Authority, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_port, "MOST_WAITING", 5)

    async def test() -> None:
        async with serving(rules(authority)) as server:
            opened = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(12)]
            closed = [asyncio.ensure_future(reader.read()) for reader, _ in opened]
            await eventually(lambda: sum(task.done() for task in closed) == 7)
            assert await ask(server, Tls(ca_file=str(authority.file))) == "encrypted"
            for task, (_, writer) in zip(closed, opened, strict=True):
                task.cancel()
                writer.close()
            await asyncio.gather(*closed, return_exceptions=True)

    run(test())


def test_a_new_certificate_is_used_and_a_broken_one_is_not(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def test() -> None:
        clock = FakeClock()
        wanted = rules(authority)
        async with ServerTls(wanted, clock) as tls:
            first = tls.context
            clock.advance(5)
            assert tls.context is first
            assert wanted.cert is not None
            wanted.cert.write_text("nonsense")
            clock.advance(5)
            assert tls.context is first
            assert "the certificate in use stays" in caplog.text
            authority.sign("server", "127.0.0.1")
            clock.advance(5)
            assert tls.context is not first

    asyncio.run(test())


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (TlsRules(mode="enforcing"), "needs a certificate"),
        (TlsRules(cert=Path("/nowhere.pem")), "No such file or directory: /nowhere.pem"),
        (TlsRules(test_mode=True, client_auth="require"), "needs tls.server.trustCertPath"),
        (TlsRules(key=Path("/nowhere.key"), test_mode=True), "needs tls.server.certPath"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(wanted: TlsRules, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        ServerTls(wanted, SystemClock())


def test_a_key_that_does_not_fit_or_cannot_be_opened_is_named(authority: Authority) -> None:
    cert, _ = authority.sign("one", "localhost")
    _, key = authority.sign("two", "localhost", password="open sesame")
    with pytest.raises(ConfigError, match=r"two\.key"):
        ServerTls(TlsRules(cert=cert, key=key, key_password="open sesame"), SystemClock())
    with pytest.raises(ConfigError, match=r"two\.key"):
        ServerTls(TlsRules(cert=cert, key=key, key_password="guess"), SystemClock())


def test_a_made_up_certificate_encrypts_for_who_checks_nothing(run: Any) -> None:
    async def test() -> None:
        async with serving(TlsRules(test_mode=True)) as server:
            assert await ask(server, Tls(verify=False)) == "encrypted"
            with pytest.raises(ConnectFailed, match="certificate is not accepted"):
                await ask(server, Tls())

    run(test())


def test_a_client_that_meets_a_server_without_tls_says_so() -> None:
    async def test() -> None:
        async with RemotingServer({ECHO: tell}, host="127.0.0.1", port=0, clock=SystemClock()) as server:
            with pytest.raises(ConnectFailed, match="perhaps it does not speak TLS"):
                await ask(server, Tls(verify=False))

    asyncio.run(test())
