"""`pyromq up`, `namesrv`, `broker`: start the servers, together or separately."""

from __future__ import annotations

import logging
import os
import string
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from pyromq.broker.config.broker_config import BrokerConfig, broker_config
from pyromq.broker.config.keys import BROKER_TABLE
from pyromq.broker.server import Broker, settle_memory
from pyromq.cli.arguments import Namesrv, namesrv_addresses
from pyromq.cli.server_settings import read_settings, start_logging, stop_signals, store_root
from pyromq.clock import SystemClock
from pyromq.console.health import health_app, serve
from pyromq.errors import ConfigError
from pyromq.namesrv.server import NameServer
from pyromq.remoting.loop import run

logger = logging.getLogger(__name__)
app = typer.Typer()

DataDir = Annotated[
    Path | None, typer.Option("--data", help="The directory for all files.", show_default="./pyromq-data")
]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
ConfigFile = Annotated[Path | None, typer.Option("-c", "--config", help="A broker.conf with RocketMQ's keys.")]
Assignments = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting; it wins over the file.")
]
Lenient = Annotated[bool, typer.Option(help="Warn about unknown keys in the file instead of failing.")]
HttpPort = Annotated[int | None, typer.Option(help="Serve /healthz and /varz on this port.")]

DEFAULT_PORT = 10911
PORTS_APART = 10  # brokers of one `up`: each also takes its port - 2 (fast) and + 1 (replication)


@app.command()
def up(
    data: DataDir = None,
    namesrv_port: Annotated[int, typer.Option(help="Port of the name server.")] = 9876,
    port: Annotated[int | None, typer.Option(help="Port of the broker.", show_default=str(DEFAULT_PORT))] = None,
    console_port: Annotated[int, typer.Option(help="Port of the console; so far /healthz and /varz.")] = 8080,
    host: Host = "127.0.0.1",
    config: ConfigFile = None,
    assignments: Assignments = None,
    brokers: Annotated[int, typer.Option(min=1, max=26, help="Number of brokers: broker-a, broker-b …")] = 1,
    slaves: Annotated[int, typer.Option(min=0, help="Slaves of each broker; not supported yet.")] = 0,
    lenient: Lenient = False,
) -> None:
    """Start a name server, a broker and the console in one process."""
    if slaves:
        raise ConfigError("--slaves: this release has no replication yet")
    start_logging()
    settings, by_set = read_settings(BROKER_TABLE, config, assignments or ())
    settings.setdefault(
        "enablePropertyFilter", "true"
    )  # for trying things out; `pyromq broker` keeps RocketMQ's default
    if brokers > 1 and (
        named := [key for key in ("storePathRootDir", "storePathCommitLog", "brokerName") if key in settings]
    ):
        raise ConfigError(f"{named[0]} belongs to one broker: it cannot be used with --brokers {brokers}")
    store_root(settings, data)

    async def start() -> None:
        stopped = stop_signals()
        async with AsyncExitStack() as stack:
            clock = SystemClock()
            namesrv_data = (data or Path("pyromq-data")) / "namesrv"
            name_server = await stack.enter_async_context(
                NameServer(host=host, port=namesrv_port, clock=clock, data_dir=namesrv_data)
            )
            started = []
            for number in range(brokers):
                chosen = _broker_settings(settings, number, data, port, name_server.address)
                made = _configured(chosen, by_set, lenient, host)
                started.append(await stack.enter_async_context(Broker(made, clock)))
            app = health_app(lambda: _problems(started), lambda: _facts(name_server, started))
            url = await stack.enter_async_context(serve(app, host, console_port))
            addresses = ",".join(broker.address for broker in started)
            settle_memory()
            typer.echo(f"PyroMQ ready: namesrv {name_server.address} broker {addresses} console {url}")
            await stopped.wait()
            logger.info("stopping")

    run(start())


@app.command()
def namesrv(
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 9876,
    host: Host = "127.0.0.1",
    data: Annotated[
        Path | None, typer.Option("--data", help="The directory for KV settings; without it they are in memory.")
    ] = None,
    http_port: HttpPort = None,
) -> None:
    """Start a name server."""
    start_logging()

    async def start() -> None:
        stopped = stop_signals()
        async with AsyncExitStack() as stack:
            server = NameServer(host=host, port=port, clock=SystemClock(), data_dir=data)
            await stack.enter_async_context(server)
            extra = ""
            if http_port is not None:
                app = health_app(dict, lambda: _facts(server, []))
                extra = f" http {await stack.enter_async_context(serve(app, host, http_port))}"
            typer.echo(f"PyroMQ name server ready: {server.address}{extra}")
            await stopped.wait()
            logger.info("stopping")

    run(start())


@app.command()
def broker(
    namesrv: Namesrv = None,
    name: Annotated[str | None, typer.Option(help="Name of the broker.", show_default="broker-a")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", show_default=str(DEFAULT_PORT))] = None,
    host: Host = "127.0.0.1",
    data: DataDir = None,
    config: ConfigFile = None,
    assignments: Assignments = None,
    http_port: HttpPort = None,
    lenient: Lenient = False,
) -> None:
    """Start a broker."""
    start_logging()
    settings, by_set = read_settings(BROKER_TABLE, config, assignments or ())
    if namesrv is not None or "namesrvAddr" not in settings:
        settings["namesrvAddr"] = namesrv_addresses(namesrv)
    if name is not None:
        settings["brokerName"] = name
    made = _configured(_broker_settings(settings, 0, data, port, settings["namesrvAddr"]), by_set, lenient, host)

    async def start() -> None:
        stopped = stop_signals()
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(Broker(made, SystemClock()))
            extra = ""
            if http_port is not None:
                app = health_app(lambda: _problems([server]), lambda: _facts(None, [server]))
                extra = f" http {await stack.enter_async_context(serve(app, host, http_port))}"
            settle_memory()
            typer.echo(f"PyroMQ broker ready: {server.address} namesrv {made.namesrv_addr}{extra}")
            await stopped.wait()
            logger.info("stopping")

    run(start())


def _broker_settings(
    settings: Mapping[str, str], number: int, data: Path | None, port: int | None, namesrv: str
) -> dict[str, str]:
    """Return the settings of broker number `number`, with defaults for what is not given."""
    name = settings.get("brokerName") or f"broker-{string.ascii_lowercase[number]}"
    first = port if port is not None else int(settings.get("listenPort", DEFAULT_PORT))
    below = "store" if number == 0 else f"{name}/store"
    chosen = dict(settings)
    chosen["brokerName"] = name
    chosen["listenPort"] = str(first + PORTS_APART * number if first else 0)
    chosen["storePathRootDir"] = store_root(settings, data, below)
    chosen["namesrvAddr"] = namesrv
    return chosen


def _configured(settings: Mapping[str, str], by_set: set[str], lenient: bool, host: str) -> BrokerConfig:
    """Check all settings; keys given by --set must be known, lenient or not."""
    config = broker_config(settings, lenient=lenient, always_strict=by_set, host=host)
    if config.without_effect:
        logger.warning("settings without effect: %s", ", ".join(config.without_effect))
    return config


def _problems(brokers: list[Broker]) -> dict[str, str]:
    return {broker.address: reason for broker in brokers if (reason := broker.problem())}


def _facts(name_server: NameServer | None, brokers: list[Broker]) -> dict[str, Any]:
    facts: dict[str, Any] = {"pid": os.getpid()}
    if name_server is not None:
        facts["namesrv"] = {"address": name_server.address}
    facts["brokers"] = [broker.http_info() for broker in brokers]
    return facts
