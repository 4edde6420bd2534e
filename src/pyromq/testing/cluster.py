"""LocalCluster: a real name server and real brokers inside the test process."""

from __future__ import annotations

import asyncio
import random
import shutil
import socket
import string
import tempfile
from collections.abc import Callable, Coroutine, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar

from msgspec.structs import replace

from pyromq.access.one_process import InnerAccount
from pyromq.blocking import Portal
from pyromq.broker.config.broker_config import BrokerConfig, broker_config
from pyromq.broker.server import Broker
from pyromq.client.portal import on_the_loop
from pyromq.errors import RemotingError
from pyromq.namesrv.config import namesrv_config
from pyromq.namesrv.keys import NAMESRV_TABLE
from pyromq.namesrv.server import NameServer
from pyromq.testing.broker_life import BreakableFiles, BrokerClock
from pyromq.testing.clock import TestClock
from pyromq.testing.expectations import TestCluster
from pyromq.testing.lost_answers import lose_answers
from pyromq.testing.network import Network, act_as, network_loop

T = TypeVar("T")

HOST = "127.0.0.1"
_PORTS = range(20_000, 30_000)  # below the ports of outgoing connections, so that a broker can return to its own
_PORT_NEIGHBOURS = (-2, 0, 1)  # the fast port, the port itself, replication
_PORT_ATTEMPTS = 20
_random = random.SystemRandom()  # tests seed the default one, with the same seed in parallel processes


class LocalBroker:
    """One broker of a cluster; it keeps its name, address and files when it restarts."""

    def __init__(self, name: str, store_path: Path, broker_id: int = 0) -> None:
        self.name = name
        self.store_path = store_path
        self.broker_id = broker_id
        """Its id while it is a slave."""
        self.is_slave = broker_id > 0
        """Whether it starts as a slave; promote() and demote() change that too."""
        self.port = 0
        self.server: Broker | None = None
        self._clock: BrokerClock | None = None
        self._files: BreakableFiles | None = None

    def __str__(self) -> str:
        return f"{self.name}/{self.broker_id}"

    def new_server(self, config: BrokerConfig, clock: TestClock) -> Broker:
        """Return a server for the next start, with a clock and files of its own."""
        self._clock, self._files = BrokerClock(clock), BreakableFiles()
        return Broker(config, self._clock, self._files)

    @property
    def clock(self) -> BrokerClock:
        """The clock of the server that runs; raises RuntimeError if none does."""
        if self._clock is None or self.server is None:
            raise RuntimeError(f"broker {self} is not running")
        return self._clock

    @property
    def files(self) -> BreakableFiles:
        """The files of the server that runs; raises RuntimeError if none does."""
        if self._files is None or self.server is None:
            raise RuntimeError(f"broker {self} is not running")
        return self._files

    def give_up(self) -> None:
        """Let the server that runs change no file any more, and wait for nothing."""
        self.clock.is_over = True
        self.files.freeze()

    def fill_disk(self, is_full: bool) -> None:
        """Let the disk of the server that runs be full, or not, and have it look."""
        self.files.is_full = is_full
        _running(self).store.cleaner.check_disk()

    @property
    def address(self) -> str:
        """The address for clients: `host:port`."""
        return f"{HOST}:{self.port}"

    @property
    def running(self) -> bool:
        """True if it is up."""
        return self.server is not None

    def awaits_disk(self) -> bool:
        """Return True if sends wait for the flush that SYNC_FLUSH promises, or a thread works for an answer."""
        if self.server is None:
            return False
        if self.server.service.is_working:
            return True
        waits = self.server.config.store.flush_disk_type == "SYNC_FLUSH"
        return waits and self.server.store.flushed_offset < self.server.store.max_physical_offset


Server: TypeAlias = int | str | LocalBroker
"""A master by its number, any broker, or `"namesrv"`."""
_NAMESRV: Final = "namesrv"
_SHARED: Final = frozenset(key for key in NAMESRV_TABLE.keys if "Acl" in key or "acl" in key or key.startswith("tls."))
"""Settings that the name server has from the brokers'."""


class LocalCluster(TestCluster):
    """A name server and brokers on their own thread, inside `with` or `async with`.

    With `slaves`, each broker has so many slaves, which follow it; none is promoted by itself.

    It uses free ports. Files are in a temporary directory that is removed at the end, or in `data`, which stays.
    `settings` has keys of broker.conf for all brokers; with `aclEnable` the name server is guarded too, by the accounts
    of `conf/plain_acl.yml` in `data`. Everything runs by `clock`: in real time until the test advances it. A client
    that must survive that needs the same clock (`Producer(…, clock=cluster.clock)`). `kill`, `pause`, `partition`,
    `cut_connections`, `drop_answers`, `full_disk` and `slow_disk` do to brokers what machines and networks do to them;
    a partition does not hold up connections with TLS. `expect` waits for messages.
    """

    def __init__(
        self,
        brokers: int = 1,
        slaves: int = 0,
        *,
        data: Path | str | None = None,
        clock: TestClock | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.clock = clock or TestClock()
        self._inner = InnerAccount()
        super().__init__(self.clock, self._inner.credentials)
        self.data = Path(data) if data is not None else Path(tempfile.gettempdir())
        self.brokers: list[LocalBroker] = []
        """The masters."""
        self.slaves: list[LocalBroker] = []
        """The slaves: those of the first broker, then those of the next."""
        self.namesrv = ""
        self._count = brokers
        self._slaves_each = slaves
        self._temporary = data is None
        self._settings = {key: _text(value) for key, value in (settings or {}).items()}

    def __enter__(self) -> Self:
        """Start everything; raise the error of the first server that cannot start."""
        if self._temporary:
            self.data = Path(tempfile.mkdtemp(prefix="pyromq-"))
        self._threads = _CountingExecutor()
        self._network = Network()
        self._portal = Portal(lambda: network_loop(self._network))
        try:
            self._portal.call(self._open())
        except BaseException:
            self._end()
            raise
        self.clock.busy.append(self._is_busy)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.clock.busy.remove(self._is_busy)
        self._portal.call(self._calm_down())
        try:
            self._portal.call(self._exit.aclose())
        finally:
            self._end()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, traceback)

    def kill(self, broker: int | LocalBroker = 0) -> None:
        """End a broker, a master by its number, like `kill -9`: its connections are reset, its files stay as they are.

        Nothing is flushed, saved or unregistered; the mark of an unclean stop stays. `start_broker` starts it again.
        """
        self._portal.call(self._kill(self._broker(broker)))

    def pause(self, broker: int | LocalBroker = 0) -> None:
        """Stop a broker like SIGSTOP: it answers no request and none of its timers fires. Its connections stay open."""
        self._portal.call(self._pause(self._broker(broker)))

    def resume(self, broker: int | LocalBroker = 0) -> None:
        """Let a paused broker go on: it answers what has arrived meanwhile, and its timers fire that are due."""
        self._portal.call(self._resume(self._broker(broker)))

    def partition(self, one: Server | Sequence[Server], other: Server | Sequence[Server]) -> None:
        """Let nothing pass between two sets of servers, until `heal`: brokers, or `"namesrv"` for the name server.

        Connections stay open and are silent, and new ones hang. Clients reach both sides. Several cuts add up.
        """
        self._portal.call(on_the_loop(self._network.cut, self._owners(one), self._owners(other)))

    def heal(self) -> None:
        """Undo all partitions; what was on its way arrives."""
        self._portal.call(on_the_loop(self._network.heal))

    def cut_connections(self, broker: int | LocalBroker = 0) -> None:
        """Reset the connections that clients have to a broker; they can make new ones at once."""
        self._portal.call(on_the_loop(self._network.reset_clients, self._broker(broker)))

    def drop_answers(self, broker: int | LocalBroker = 0, *, count: int = 1) -> None:
        """Have a broker store the next `count` sends and answer none of them, as if the answers were lost."""
        running = _running(self._broker(broker))
        self._portal.call(on_the_loop(lose_answers, running.handlers, count))

    @contextmanager
    def full_disk(self, broker: int | LocalBroker = 0) -> Iterator[None]:
        """Let nothing more fit on a broker's disk, inside `with`: it refuses messages."""
        broken = self._broker(broker)
        self._portal.call(on_the_loop(broken.fill_disk, True))
        try:
            yield
        finally:
            if broken.running:  # one that started meanwhile has a disk with room
                self._portal.call(on_the_loop(broken.fill_disk, False))

    @contextmanager
    def slow_disk(self, broker: int | LocalBroker = 0, *, seconds: float) -> Iterator[None]:
        """Let each flush of a broker take so much longer, inside `with`; with SYNC_FLUSH, sends wait for flushes."""
        files = self._broker(broker).files
        files.flush_delay = seconds
        try:
            yield
        finally:
            files.flush_delay = 0.0

    def _owners(self, servers: Server | Sequence[Server]) -> list[Hashable]:
        if isinstance(servers, int | str | LocalBroker):
            servers = [servers]
        return [_NAMESRV if isinstance(server, str) else self._broker(server) for server in servers]

    def stop_broker(self, broker: int | LocalBroker = 0) -> None:
        """Stop a broker, a master by its number, like SIGTERM: it unregisters, flushes and closes."""
        self._portal.call(self._stop_broker(self._broker(broker)))

    def start_broker(self, broker: int | LocalBroker = 0) -> None:
        """Start a stopped broker again, at its old address, with its files."""
        self._portal.call(self._start_broker(self._broker(broker)))

    def _broker(self, broker: int | LocalBroker) -> LocalBroker:
        return self.brokers[broker] if isinstance(broker, int) else broker

    def promote(self, broker: LocalBroker) -> None:
        """Make a running broker master: it takes messages from now on. Whoever was master is to be demoted first."""
        self._portal.call(_acting_as(broker, _running(broker).promote()))
        broker.is_slave = False

    def demote(self, broker: LocalBroker) -> None:
        """Make a running broker slave: it follows whoever is registered as master."""
        self._portal.call(_acting_as(broker, _running(broker).demote()))
        broker.is_slave = True

    async def _open(self) -> None:
        asyncio.get_running_loop().set_default_executor(self._threads)
        async with AsyncExitStack() as stack:
            name_server = NameServer(
                host=HOST,
                port=0,
                clock=self.clock,
                data_dir=self.data / "namesrv",
                config=replace(
                    namesrv_config({key: text for key, text in self._settings.items() if key in _SHARED}),
                    home=self.data,
                    inner_account=self._inner.credentials,
                ),
            )
            act_as(_NAMESRV)
            self.namesrv = (await stack.enter_async_context(name_server)).address
            self.brokers = [self._new_broker(number) for number in range(self._count)]
            self.slaves = [self._new_slave(master, number) for master in self.brokers for number in self._slave_ids()]
            for broker in (*self.brokers, *self.slaves):
                stack.push_async_callback(self._stop_broker, broker)
                await self._start_broker(broker)
            self._exit = stack.pop_all()

    def _new_broker(self, number: int) -> LocalBroker:
        name = f"broker-{string.ascii_lowercase[number]}"
        return LocalBroker(name, self.data / "store" if number == 0 else self.data / name / "store")

    def _new_slave(self, master: LocalBroker, broker_id: int) -> LocalBroker:
        return LocalBroker(master.name, self.data / f"{master.name}-slave-{broker_id}" / "store", broker_id)

    def _slave_ids(self) -> range:
        return range(1, self._slaves_each + 1)

    async def _start_broker(self, broker: LocalBroker) -> None:
        act_as(broker)
        self._network.revive(broker)
        attempts = 1 if broker.port else _PORT_ATTEMPTS
        while not broker.running:
            port = broker.port or _free_port()
            attempts -= 1
            try:
                broker.server = await self._server(broker, port).__aenter__()
                broker.port = port
            except RemotingError:  # another process took the port first
                if attempts == 0:
                    raise

    async def _kill(self, broker: LocalBroker) -> None:
        act_as(broker)
        broker.give_up()
        self._network.kill(broker)
        broker.clock.resume()
        await self._stop_broker(broker)

    async def _pause(self, broker: LocalBroker) -> None:
        broker.clock.pause()
        self._network.pause(broker)

    async def _resume(self, broker: LocalBroker) -> None:
        self._network.resume(broker)
        broker.clock.resume()

    async def _calm_down(self) -> None:
        """Undo what holds brokers up, so that they can end."""
        self._network.heal()
        for broker in (*self.brokers, *self.slaves):
            if broker.running:
                await self._resume(broker)

    async def _stop_broker(self, broker: LocalBroker) -> None:
        act_as(broker)
        server, broker.server = broker.server, None
        if server is not None:
            await server.__aexit__(None, None, None)

    def _server(self, broker: LocalBroker, port: int) -> Broker:
        own = {
            "brokerName": broker.name,
            "listenPort": str(port),
            "diskSpaceWarningLevelRatio": "0.99",  # more than FULLEST_DISK: only `full_disk` goes beyond
            "brokerFastFailureEnable": "false",  # nor on how busy it is
            "osPageCacheBusyTimeOutMills": "60000",
            "namesrvAddr": self.namesrv,
            "storePathRootDir": str(broker.store_path),
            "enablePropertyFilter": "true",  # as `pyromq up`
        }
        settings = {**own, **self._settings}
        if broker.is_slave:
            settings |= {"brokerRole": "SLAVE", "brokerId": str(broker.broker_id or self._slaves_each + 1)}
        config = broker_config(settings, host=HOST).with_inner_account(self._inner, self.data)
        return broker.new_server(config, self.clock)

    def _is_busy(self) -> bool:
        """Return True if a thread has work that answers wait for."""
        return self._threads.is_busy() or any(broker.awaits_disk() for broker in (*self.brokers, *self.slaves))

    def _end(self) -> None:
        self._portal.close()
        if self._temporary:
            shutil.rmtree(self.data, ignore_errors=True)


async def _acting_as(broker: LocalBroker, work: Coroutine[Any, Any, T]) -> T:
    act_as(broker)
    return await work


def _running(broker: LocalBroker) -> Broker:
    if broker.server is None:
        raise RuntimeError(f"broker {broker.name} is not running")
    return broker.server


class _CountingExecutor(ThreadPoolExecutor):
    """The cluster's threads for slow calls; the clock waits while a call is running."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="pyromq-cluster")
        self._unfinished: set[Future[Any]] = set()

    def is_busy(self) -> bool:
        """Return True if a call is running."""
        return bool(self._unfinished)

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future = super().submit(function, *args, **kwargs)
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        return future


def _free_port() -> int:
    """Return a free port whose neighbours, which a broker uses too, are free as well."""
    while True:
        port = _random.choice(_PORTS)
        if all(_is_free(port + beside) for beside in _PORT_NEIGHBOURS):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _text(value: object) -> str:
    """Return a setting as text for broker.conf."""
    return str(value).lower() if isinstance(value, bool) else str(value)
