"""NameServer: builds the parts of a name server and listens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from pyromq.access.access_control import AccessControl, AccessRules
from pyromq.clock import Clock
from pyromq.errors import ConfigError
from pyromq.figures import BoundFigures, Figure, Figures, Kind
from pyromq.namesrv.config import NameServerConfig, NameServerSettings
from pyromq.namesrv.handlers import NameServerHandlers
from pyromq.namesrv.kv import KVConfig
from pyromq.namesrv.requests import REQUESTS
from pyromq.namesrv.routes import RouteTable
from pyromq.problems import Problem, ProblemWatch
from pyromq.protocol.codes import RequestCode
from pyromq.remoting.audit.access_log import AccessLog
from pyromq.remoting.audit.audit_requests import AuditHandlers
from pyromq.remoting.audit.audit_trail import FILE_NAME, AuditTrail
from pyromq.remoting.connection import Connection
from pyromq.remoting.dispatch import refusals_by_cause
from pyromq.remoting.held_bytes import held_figures
from pyromq.remoting.server import RemotingServer
from pyromq.remoting.ticker import Ticker
from pyromq.store.files import OsFiles, store_error
from pyromq.store.small_files.lock import DirectoryLock

DEFAULT_CONFIG = NameServerConfig()
KV_FILE = "kvConfig.json"
SETTINGS_FILE = "namesrv.properties"
CAUSES = ("same_name_and_id", "clock_jumped")
"""What can be wrong; /metrics has a line for each."""


class NameServer:
    """A name server on one port; an async context manager that serves while it is open.

    `data_dir` holds the KV config and changed settings; without it, and without a path for the KV config, they are lost
    when the server stops. Routes are never saved: brokers register again within 30 s.
    """

    def __init__(
        self, *, host: str, port: int, clock: Clock, data_dir: Path | None, config: NameServerConfig = DEFAULT_CONFIG
    ) -> None:
        self.routes = RouteTable(max_brokers=config.max_brokers, max_topics=config.max_topics)
        self._host = host
        self._config = config
        if data_dir is None and config.kv_path is not None:
            data_dir = config.kv_path.parent
        self._data_dir = data_dir
        self._kv_path = config.kv_path or (data_dir and data_dir / KV_FILE)
        self._scans = Ticker(clock, config.scan_interval, self._scan)
        self._kv = KVConfig(self._kv_path, most_pairs=config.max_kv_pairs, most_characters=config.max_kv_characters)
        self.watch = ProblemWatch("name server", clock, self._find_problems)
        """What is wrong with this server, or with the brokers that register here."""
        self._settings = NameServerSettings(config, data_dir and data_dir / SETTINGS_FILE, self._fixed_settings)
        handlers = NameServerHandlers(self.routes, self._kv, self._settings, self._now)
        trail = AuditTrail("namesrv", config.audit_log or (data_dir and data_dir / "audit" / FILE_NAME), clock)
        owners = handlers, AuditHandlers(trail)
        log = AccessLog(REQUESTS, trail=trail, states=REQUESTS.states(*owners))
        self._control = self._access_control(clock, log)
        self._tls = config.server_tls(clock)
        self._server = RemotingServer(
            log.all_logged(REQUESTS.handlers(*owners, max_bodies=_max_bodies(config))),
            host=host,
            port=port,
            clock=clock,
            port_limits=config,
            idle_timeout=config.idle_timeout,
            on_disconnect=self.routes.connection_lost,
            guard=None if self._control is None else self._control.guard,
            tls=self._tls,
        )

    def _access_control(self, clock: Clock, log: AccessLog) -> AccessControl | None:
        config = self._config
        if not config.acl_enabled or config.acl_compatible:
            return None
        home = config.home or self._data_dir
        if home is None:
            raise ConfigError("aclEnable=true needs a directory with conf/plain_acl.yml: give --data or rocketmqHome")
        rules = AccessRules(
            home=home,
            trusts_white_list=config.acl_trusts_white_list,
            requires_tls=config.needs_tls(config.acl_requires_tls),
            own=config.inner_account,
        )
        return AccessControl(rules, REQUESTS, clock, log)

    @property
    def port(self) -> int:
        """The port it listens on, even if the configured one is 0."""
        return self._server.port

    @property
    def address(self) -> str:
        """Where clients reach it: `host:port`."""
        return f"[{self._host}]:{self.port}" if ":" in self._host else f"{self._host}:{self.port}"

    @property
    def connections(self) -> list[Connection]:
        """The connections that are open."""
        return list(self._server.connections)

    @property
    def refusals(self) -> dict[str, int]:
        """How often requests were refused, by the name of the response code."""
        return refusals_by_cause(self._server.refusals)

    def problems(self) -> list[Problem]:
        """Return what is wrong now."""
        return self.watch.look()

    def _find_problems(self) -> Iterator[Problem]:
        advice = "if both are to run, give one another brokerName or brokerId; else stop one"
        if rivalries := self.routes.rivalries(self._now()):
            yield Problem("same_name_and_id", "; ".join(rivalries), advice)

    def figures(self) -> Figures:
        """Return all figures of this server."""
        control = [] if self._control is None else [self._control.figures()]
        parts = self.routes.figures(), self._kv.figures(), self._server.tally.figures(), held_figures()
        return Figures(BoundFigures(_FIGURES, lambda: self), *parts, *control)

    def http_info(self) -> dict[str, object]:
        """Return what /varz shows of this server."""
        return self.figures().varz()

    async def __aenter__(self) -> Self:
        """Listen; raise StoreError, ConfigError or RemotingError if the directory, a file or the port is unusable."""
        async with AsyncExitStack() as stack:
            if self._data_dir is not None:
                self._lock_directory(self._data_dir, stack)
            if self._control is not None:
                await stack.enter_async_context(self._control)
            if self._tls is not None:
                await stack.enter_async_context(self._tls)
            self._kv.load()
            self._settings.load()
            await stack.enter_async_context(self._server)
            self._scans.start()
            stack.callback(self._scans.stop)
            stack.enter_context(self.watch)
            self._exit = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exit.aclose()

    def _lock_directory(self, directory: Path, stack: AsyncExitStack) -> None:
        try:
            OsFiles().makedirs(str(directory))
        except OSError as error:
            raise store_error("create", str(directory), error) from error
        lock = DirectoryLock(directory, OsFiles())
        lock.acquire()
        stack.callback(lock.release)

    def _fixed_settings(self) -> dict[str, str]:
        """Return the settings that can be read but not changed over the wire, by Apache's names."""
        paths = {"kvConfigPath": self._kv_path, "configStorePath": self._data_dir and self._data_dir / SETTINGS_FILE}
        return {
            "listenPort": str(self.port),
            "serverChannelMaxIdleTimeSeconds": str(round(self._config.idle_timeout)),
            "clusterTest": "false",
            "productEnvName": "center",
            **{key: str(path) for key, path in paths.items() if path is not None},
        }

    def _now(self) -> float:
        """Return seconds counted in scans: setting the machine's clock must not make a broker look silent."""
        return self._scans.count * self._config.scan_interval

    def _scan(self) -> bool:
        for connection in self.routes.expire(self._now(), self._config.broker_silence):
            if isinstance(connection, Connection):
                connection.abort(f"its broker has not registered for {self._config.broker_silence:g} s")
        return True


def _max_bodies(config: NameServerConfig) -> dict[int, tuple[str, int]]:
    return {RequestCode.REGISTER_BROKER: ("pyromqMaxRegistrationBytes", config.max_registration_bytes)}


_FIGURES: tuple[Figure[NameServer], ...] = (
    Figure("address", "Where clients reach this name server.", Kind.TEXT, lambda server: server.address),
    Figure("connections", "Open connections.", Kind.GAUGE, lambda server: len(server.connections)),
    Figure(
        "requests_refused",
        "Requests answered with an error, by its cause.",
        Kind.COUNTER,
        lambda server: server.refusals,
        label="cause",
    ),
    Figure(
        "problem",
        "1 while something is wrong that this name server sees, by its cause.",
        Kind.GAUGE,
        lambda server: {cause: int(cause in {one.cause for one in server.problems()}) for cause in CAUSES},
        label="cause",
    ),
)
