"""Name servers and brokers, Apache's and ours, as processes on this machine."""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from interop.toolkit import Toolkit

Kind = Literal["apache", "pyromq"]

HOST = "127.0.0.1"
BROKER_NAME = "broker-a"
CLUSTER = "DefaultCluster"
_START_TIMEOUT = 180.0  # on a busy machine
_STOP_TIMEOUT = 120.0
_PORTS = range(20_000, 30_000)  # below the ports of outgoing connections
_NEIGHBOURS = (-2, 0, 1)  # a broker's fast port, its port, replication
_random = random.SystemRandom()

# Java 17 must allow the servers to unmap files through internal classes of the JDK.
_JAVA_17 = [
    *("--add-opens", "java.base/java.nio=ALL-UNNAMED"),
    *("--add-opens", "java.base/jdk.internal.ref=ALL-UNNAMED"),
    *("--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED"),
    *("--add-exports", "java.base/sun.nio.ch=ALL-UNNAMED"),
]
JAVA_OPTIONS = ["-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]

# The same broker.conf for both: small files, no checks for a slow or full disk, short delays, frequent checks.
SETTINGS = {
    "brokerClusterName": CLUSTER,
    "brokerName": BROKER_NAME,
    "brokerId": "0",
    "brokerIP1": HOST,
    "mappedFileSizeCommitLog": str(16 << 20),
    "mappedFileSizeConsumeQueue": str(20_000 * 20),
    "maxHashSlotNum": "50000",
    "maxIndexNum": "200000",
    "diskMaxUsedSpaceRatio": "95",
    "enablePropertyFilter": "true",
    "waitTimeMillsInSendQueue": "10000",
    "osPageCacheBusyTimeOutMills": "10000",
    "messageDelayLevel": "1s 2s 1s 1s 2s 3s 4s 5s 6s 7s 8s 9s 10s 20s 30s 1h 2h 3h",
    "transactionTimeOut": "2000",
    "transactionCheckInterval": "2000",
}


class Server:
    """One server process: started on creation, ended by `stop`, `kill` or the end of `with`.

    With `own_session` the kernel gives it the same share of the CPU as to others that have their own.
    """

    def __init__(
        self,
        command: list[str],
        log: Path,
        ready: str,
        environment: Mapping[str, str] | None = None,
        *,
        own_session: bool = False,
    ) -> None:
        self.log = log
        self._out = log.open("ab")
        self._before = log.stat().st_size
        self._process = subprocess.Popen(
            command, stdout=self._out, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})},
            start_new_session=own_session,
        )  # fmt: skip
        try:
            self._wait_for(ready)
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.running:
            self.stop()

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def said(self) -> str:
        """Return its output since it was started."""
        return self.log.read_bytes()[self._before :].decode(errors="replace")

    def stop(self) -> None:
        """Stop it as an operator does, and wait until it has exited."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not stop: {self.said()[-2000:]}") from None
        self._out.close()

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._process.kill()
        self._process.wait()
        self._out.close()

    def _wait_for(self, ready: str) -> None:
        end = time.monotonic() + _START_TIMEOUT
        while not re.search(ready, self.said()):
            assert self.running, f"ended with {self._process.returncode}: {self.said()[-4000:]}"
            assert time.monotonic() < end, f"not ready: {self.said()[-4000:]}"
            time.sleep(0.05)


class NameServer(Server):
    """A name server of either kind."""

    def __init__(self, kind: Kind, toolkit: Toolkit, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.address = f"{HOST}:{port}"
        log = directory / "namesrv.log"
        if kind == "pyromq":
            super().__init__(pyromq_command("namesrv", "--port", str(port)), log, "ready: ")
            return
        config = directory / "namesrv.conf"
        config.write_text(f"listenPort={port}\nkvConfigPath={directory}/kvConfig.json\n")
        command = _java_server(toolkit, directory, "org.apache.rocketmq.namesrv.NamesrvStartup", config)
        super().__init__(command, log, "boot success", _environment(toolkit))


class Broker(Server):
    """A broker of either kind; both read the same broker.conf and keep their store in `directory`/store.

    `options` are for the JVM of Apache's.
    """

    def __init__(
        self,
        kind: Kind,
        toolkit: Toolkit,
        directory: Path,
        namesrv: str,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        options: Sequence[str] = (),
        *,
        own_session: bool = False,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.kind = kind
        self.port = port or free_port()
        self.address = f"{HOST}:{self.port}"
        self.store = directory / "store"
        config = directory / "broker.conf"
        config.write_text(_broker_conf(self.store, self.port, namesrv, {**SETTINGS, **(settings or {})}))
        log = directory / f"{kind}-broker.log"
        if kind == "pyromq":
            super().__init__(pyromq_command("broker", "-c", str(config)), log, "ready: ", own_session=own_session)
        else:
            command = _java_server(toolkit, directory, "org.apache.rocketmq.broker.BrokerStartup", config, options)
            super().__init__(command, log, "boot success", _environment(toolkit), own_session=own_session)


def free_port() -> int:
    """Return a free port whose neighbours, which a broker uses too, are also free."""
    while True:
        port = _random.choice(_PORTS)
        if all(_is_free(port + beside) for beside in _NEIGHBOURS):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def _broker_conf(store: Path, port: int, namesrv: str, settings: Mapping[str, str]) -> str:
    own = {
        "listenPort": str(port),
        "namesrvAddr": namesrv,
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
    }
    return "".join(f"{key}={value}\n" for key, value in {**settings, **own}.items())


def pyromq_command(*arguments: str) -> list[str]:
    """Return the command line of one of our commands."""
    return [sys.executable, "-m", "pyromq.cli.main", *arguments]


def _java_server(toolkit: Toolkit, directory: Path, name: str, config: Path, options: Sequence[str] = ()) -> list[str]:
    own = [f"-Duser.home={directory}", *options, "-cp", f"{toolkit.servers}/*"]
    return [str(toolkit.java), *JAVA_OPTIONS, *_JAVA_17, *own, name, "-c", str(config)]


def _environment(toolkit: Toolkit) -> dict[str, str]:
    return {"ROCKETMQ_HOME": str(toolkit.home)}
