"""`pyromq console`: the console as a process of its own, for any cluster of RocketMQ 4.x. `up` starts it too."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from pyromq.cli.arguments import Namesrv, namesrv_addresses
from pyromq.cli.family import Family
from pyromq.cli.server_logs import server_command
from pyromq.cli.server_settings import DEFAULT_DATA, port_from, port_option, stop_signals
from pyromq.client.environment import environment_credentials
from pyromq.client.net.address import chosen_namesrv
from pyromq.clock import SystemClock
from pyromq.console.monitoring.access import is_loopback, read_token
from pyromq.console.monitoring.http_server import bind
from pyromq.console.thread import ConsoleThread
from pyromq.console.web.settings import ConsoleSettings
from pyromq.errors import ConfigError
from pyromq.remoting.loop import run
from pyromq.remoting.tls.server_tls import ENFORCING, ServerTls, TlsRules

logger = logging.getLogger(__name__)
app = Family()

DEFAULT_PORT = 8080


@app.command()
@server_command
def console(
    namesrv: Namesrv = None,
    port: Annotated[int, port_option("Port to listen on.")] = DEFAULT_PORT,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="The directory of console.yml (users, masking), history and audit log.",
            show_default="./pyromq-data/console",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--http-token-file", metavar="FILE", help="The bearer token that /metrics needs, unless on loopback."
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option("--tls-cert", metavar="FILE", help="Speak HTTPS only, with this certificate (PEM)."),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option("--tls-key", metavar="FILE", help="Its key; by default in the file of the certificate."),
    ] = None,
) -> None:
    """Start the console for a cluster; the first password is printed once."""
    token = None if token_file is None else read_token(token_file)
    tls = console_tls(tls_cert, tls_key)
    addresses, credentials = namesrv_addresses(namesrv), environment_credentials()
    chosen_namesrv(addresses)  # a wrong address ends it before there is a password

    async def start() -> None:
        stopped = stop_signals()
        async with AsyncExitStack() as stack:
            settings = ConsoleSettings(host=host, data=data or DEFAULT_DATA / "console", login=True)
            served, password = await serve_console(settings, port, "--port", token, stack, tls)
            show_password(password)  # nothing that fails from here on may keep it back
            await served.connect(addresses, credentials)
            stack.push_async_callback(served.disconnect)
            served.watched.run(None)
            typer.echo(f"PyroMQ console ready: {served.url} namesrv {addresses}")
            await stopped.wait()
            logger.info("stopping")

    run(start())


async def serve_console(
    settings: ConsoleSettings,
    port: int,
    option: str,
    token: str | None,
    stack: AsyncExitStack,
    tls: TlsRules | None = None,
) -> tuple[ConsoleThread, str]:
    """Serve the console before any server starts; return it, and the first password if one was just made."""
    with port_from(option):
        listener = stack.enter_context(bind(settings.host, port))
    served = ConsoleThread(listener, settings, token, tls)
    password = served.load()
    return await stack.enter_async_context(served), password


def console_tls(cert: Path | None, key: Path | None) -> TlsRules | None:
    """Return the rules of a console with a certificate, None without one; raise ConfigError if it cannot be read."""
    if cert is None:
        if key is not None:
            raise ConfigError("--tls-key needs --tls-cert")
        return None
    rules = TlsRules(mode=ENFORCING, cert=cert, key=key)
    ServerTls(rules, SystemClock())  # a wrong file ends it before there is a password
    return rules


def console_beside_servers(host: str, data: Path) -> ConsoleSettings:
    """Return the settings of the console in `up`: nobody signs in where only this machine reaches it."""
    return ConsoleSettings(host=host, data=data / "console", login=not is_loopback(host))


def show_password(password: str) -> None:
    """Print the first password; it is kept as a hash, so nobody can print it again."""
    if password:
        typer.echo(f"PyroMQ console: sign in as admin with the password {password} (shown only this once)")
