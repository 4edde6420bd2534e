"""`pyromq up`, `namesrv`, `broker`: start the servers, together or separately."""

from __future__ import annotations

import asyncio
import logging
import string
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.config.keys import BROKER_TABLE
from pyromq.broker.server import Broker
from pyromq.broker.sides.late_imports import import_readers
from pyromq.cli.arguments import Namesrv, namesrv_addresses
from pyromq.cli.commands.console import console_beside_servers, serve_console, show_password
from pyromq.cli.family import Family
from pyromq.cli.guarded_servers import guarded_name_server, guarded_together
from pyromq.cli.server_logs import server_command
from pyromq.cli.server_settings import (
    BROKER_PORT,
    DEFAULT_DATA,
    port_from,
    port_option,
    read_settings,
    stop_signals,
    store_root,
)
from pyromq.client.environment import environment_credentials
from pyromq.clock import SystemClock
from pyromq.console.monitoring.access import read_token
from pyromq.console.monitoring.http_server import bind
from pyromq.console.monitoring.monitoring import Monitoring
from pyromq.errors import ConfigError
from pyromq.lane import lane_text
from pyromq.namesrv.config import namesrv_config
from pyromq.namesrv.keys import NAMESRV_TABLE
from pyromq.namesrv.server import NameServer
from pyromq.remoting.collector import freeze_code, settle_memory
from pyromq.remoting.limits import PROCESS_ROOM
from pyromq.remoting.loop import run
from pyromq.remoting.tls.server_tls import TlsRules

logger = logging.getLogger(__name__)
app = Family()

DataDir = Annotated[
    Path | None, typer.Option("--data", help="The directory for all files.", show_default="./pyromq-data")
]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
ConfigFile = Annotated[Path | None, typer.Option("-c", "--config", help="A broker.conf with RocketMQ's keys.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, which wins over the file; may be repeated."),
]
Lenient = Annotated[bool, typer.Option("--lenient", help="Warn about unknown keys in the file instead of failing.")]
HttpPort = Annotated[
    int | None, port_option("Serve /healthz, /readyz, /metrics, /varz, /connz, /topicz and /groupz on this port.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--http-token-file",
        metavar="FILE",
        help="Pages but /healthz and /readyz need this bearer token, unless --host is loopback.",
    ),
]

DEFAULT_PORT = 10911
DEFAULT_NAMESRV_PORT = 9876
_TURN = 2.0  # after so many seconds the next broker starts, whether the one before it is ready or waits for it
PORTS_APART = 10  # brokers of one `up`: each also takes its port - 2 (fast) and + 1 (replication)


@app.command()
@server_command
def up(
    data: DataDir = None,
    namesrv_port: Annotated[int, port_option("Port of the name server.")] = DEFAULT_NAMESRV_PORT,
    port: Annotated[int | None, port_option("Port of the broker.", DEFAULT_PORT)] = None,
    console_port: Annotated[
        int, port_option("Port of the console, and of pages for machines: /metrics, /readyz ...")
    ] = 8080,
    host: Host = "127.0.0.1",
    config: ConfigFile = None,
    assignments: Assignments = None,
    token_file: TokenFile = None,
    brokers: Annotated[int, typer.Option(min=1, max=26, help="Number of brokers: broker-a, broker-b, ...")] = 1,
    slaves: Annotated[int, typer.Option(min=0, max=9, help="Number of slaves of each broker.")] = 0,
    lenient: Lenient = False,
) -> None:
    """Start a name server, brokers and the console in one process."""
    settings, by_set = read_settings(BROKER_TABLE, config, assignments or ())
    settings.setdefault(
        "enablePropertyFilter", "true"
    )  # for trying things out; `pyromq broker` keeps RocketMQ's default
    chosen = _all_settings(settings, brokers, slaves, data, port)
    configs = [broker_config(values, lenient=lenient, always_strict=by_set, host=host) for values in chosen]
    token = None if token_file is None else read_token(token_file)
    configs = guarded_together(configs, data or DEFAULT_DATA)
    _warn(configs[0].without_effect)

    async def start() -> None:
        stopped = stop_signals()
        async with AsyncExitStack() as stack:
            clock = SystemClock()
            beside = console_beside_servers(host, data or DEFAULT_DATA)
            tls = configs[0].tls_rules
            console, password = await serve_console(beside, console_port, "--console-port", token, stack, tls)
            name_server = NameServer(
                host=host,
                port=namesrv_port,
                clock=clock,
                data_dir=(data or DEFAULT_DATA) / "namesrv",
                config=guarded_name_server(configs[0]),
            )
            with port_from("--namesrv-port"):
                await stack.enter_async_context(name_server)
            servers = [Broker(replace(config, namesrv=(name_server.address,)), clock) for config in configs]
            _import_all()
            with port_from(BROKER_PORT):
                started = await _start_brokers(servers, stack, stopped)
            stack.callback(console.watched.stop)
            console.watched.run(name_server, started)
            addresses = ",".join(broker.address for broker in started)
            for server in started:
                server.use_descriptors(PROCESS_ROOM, len(started))
            await console.connect(name_server.address, configs[0].inner_account, configs[0].inner_tls)
            stack.push_async_callback(console.disconnect)
            settle_memory()
            typer.echo(f"PyroMQ ready: namesrv {name_server.address} broker {addresses} console {console.url}")
            show_password(password)
            await stopped.wait()
            logger.info("stopping")

    run(start())


@app.command()
@server_command
def namesrv(
    port: Annotated[int | None, port_option("Port to listen on.", DEFAULT_NAMESRV_PORT)] = None,
    host: Host = "127.0.0.1",
    data: Annotated[
        Path | None, typer.Option("--data", help="The directory for KV settings; without it they are in memory.")
    ] = None,
    config: Annotated[Path | None, typer.Option("-c", "--config", help="A namesrv.conf with RocketMQ's keys.")] = None,
    assignments: Assignments = None,
    http_port: HttpPort = None,
    token_file: TokenFile = None,
    lenient: Lenient = False,
) -> None:
    """Start a name server."""
    settings, by_set = read_settings(NAMESRV_TABLE, config, assignments or ())
    if data is not None and "kvConfigPath" in settings:
        raise ConfigError("--data and kvConfigPath both say where KV settings are kept: use only one of them")
    if port is not None:
        settings["listenPort"] = str(port)
    made = namesrv_config(settings, lenient=lenient, always_strict=by_set)
    token = None if token_file is None else read_token(token_file)
    _warn(made.without_effect)

    async def start() -> None:
        stopped = stop_signals()
        async with AsyncExitStack() as stack:
            pages = None if http_port is None else await _serve_pages(host, http_port, token, made.tls_rules, stack)
            server = NameServer(host=host, port=made.port, clock=SystemClock(), data_dir=data, config=made)
            with port_from("--port"):
                await stack.enter_async_context(server)
            extra = ""
            if pages is not None:
                stack.callback(pages.watched.stop)
                pages.watched.run(server)
                extra = f" http {pages.url}"
            settle_memory()
            typer.echo(f"PyroMQ name server ready: {server.address}{extra}")
            await stopped.wait()
            logger.info("stopping")

    run(start())


@app.command()
@server_command
def broker(
    namesrv: Namesrv = None,
    name: Annotated[str | None, typer.Option(help="Name of the broker.", show_default="broker-a")] = None,
    port: Annotated[int | None, port_option("Port to listen on.", DEFAULT_PORT)] = None,
    host: Host = "127.0.0.1",
    data: DataDir = None,
    config: ConfigFile = None,
    assignments: Assignments = None,
    http_port: HttpPort = None,
    token_file: TokenFile = None,
    lenient: Lenient = False,
) -> None:
    """Start a broker."""
    settings, by_set = read_settings(BROKER_TABLE, config, assignments or ())
    if namesrv is not None or "namesrvAddr" not in settings:
        settings["namesrvAddr"] = namesrv_addresses(namesrv)
    if name is not None:
        settings["brokerName"] = name
    (chosen,) = _all_settings(settings, 1, 0, data, port)
    made = broker_config(chosen, lenient=lenient, always_strict=by_set, host=host)
    token = None if token_file is None else read_token(token_file)
    made = replace(made, home=made.home or data or DEFAULT_DATA, credentials=environment_credentials())
    _warn(made.without_effect)

    async def start() -> None:
        stopped = stop_signals()
        async with AsyncExitStack() as stack:
            pages = None if http_port is None else await _serve_pages(host, http_port, token, made.tls_rules, stack)
            _import_all()
            with port_from(BROKER_PORT):
                (server,) = await _start_brokers([Broker(made, SystemClock())], stack, stopped)
            extra = ""
            if pages is not None:
                stack.callback(pages.watched.stop)
                pages.watched.run(None, [server])
                extra = f" http {pages.url}"
            server.use_descriptors(PROCESS_ROOM)
            settle_memory()
            typer.echo(f"PyroMQ broker ready: {server.address} namesrv {made.namesrv_addr}{extra} lane {lane_text()}")
            await stopped.wait()
            logger.info("stopping")

    run(start())


def _import_all() -> None:
    """Do before brokers answer what would hold up their first clients: it takes a fifth of a second."""
    import_readers()
    freeze_code()


async def _start_brokers(servers: Sequence[Broker], stack: AsyncExitStack, stopped: asyncio.Event) -> list[Broker]:
    """Start brokers in their order; one that waits for its slave does not hold up those behind it.

    A signal ends the start. The first error of one ends that of all.
    """
    loop = asyncio.get_running_loop()
    signal = loop.create_task(stopped.wait())
    starts: list[asyncio.Task[Broker]] = []
    try:
        for server in servers:
            starts.append(loop.create_task(stack.enter_async_context(server)))
            await asyncio.wait([starts[-1], signal], timeout=_TURN, return_when=asyncio.FIRST_COMPLETED)
        while unfinished := _check(starts):
            await asyncio.wait([*unfinished, signal], return_when=asyncio.FIRST_COMPLETED)
            if signal.done() and _check(starts):
                raise typer.Exit
    finally:
        for task in (signal, *starts):
            task.cancel()
        await asyncio.gather(signal, *starts, return_exceptions=True)
    return [start.result() for start in starts]


def _check(starts: list[asyncio.Task[Broker]]) -> list[asyncio.Task[Broker]]:
    """Return the starts that go on; raise the error of the first that failed."""
    for start in starts:
        if start.done():
            start.result()
    return [start for start in starts if not start.done()]


async def _serve_pages(host: str, port: int, token: str | None, tls: TlsRules, stack: AsyncExitStack) -> Monitoring:
    """Serve the pages before any server starts: a port in use would stop them again, and probes hear that it starts."""
    with port_from("--http-port"):
        listener = stack.enter_context(bind(host, port))
    return await stack.enter_async_context(Monitoring(listener, host, token, tls))


def _all_settings(
    settings: Mapping[str, str], brokers: int, slaves: int, data: Path | None, port: int | None
) -> list[dict[str, str]]:
    """Return the settings of each broker, masters first; raise ConfigError if several would share what only one can."""
    alone = ["brokerName"] if brokers > 1 else []
    alone += ["storePathRootDir", "storePathCommitLog", "haListenPort"] if brokers > 1 or slaves else []
    if shared := [key for key in alone if key in settings]:
        raise ConfigError(f"{shared[0]} belongs to one broker: it cannot be used with --brokers or --slaves")
    masters = [_broker_settings(settings, number, data) for number in range(brokers)]
    chosen = masters + [_slave_settings(master, number + 1, data) for master in masters for number in range(slaves)]
    for number, values in enumerate(chosen):
        values["listenPort"] = _nth_port(settings, port, number)
    return chosen


def _broker_settings(settings: Mapping[str, str], number: int, data: Path | None) -> dict[str, str]:
    """Return the settings of broker number `number`, with defaults for what is not given."""
    name = settings.get("brokerName") or f"broker-{string.ascii_lowercase[number]}"
    root = store_root(settings, data, "store" if number == 0 else f"{name}/store")
    return {**settings, "brokerName": name, "storePathRootDir": root}


def _slave_settings(master: Mapping[str, str], broker_id: int, data: Path | None) -> dict[str, str]:
    """Return the settings of a slave: those of its master, with a directory of its own."""
    root = (data or DEFAULT_DATA) / f"{master['brokerName']}-slave-{broker_id}" / "store"
    return {**master, "brokerRole": "SLAVE", "brokerId": str(broker_id), "storePathRootDir": str(root)}


def _nth_port(settings: Mapping[str, str], port: int | None, number: int) -> str:
    """Return the port of broker number `number`; one that is no number is refused with all other settings."""
    first = str(port) if port is not None else settings.get("listenPort", str(DEFAULT_PORT)).strip()
    return str(int(first) + PORTS_APART * number) if first.isdecimal() and int(first) else first


def _warn(without_effect: tuple[str, ...]) -> None:
    if without_effect:
        logger.warning("settings without effect: %s", ", ".join(without_effect))
