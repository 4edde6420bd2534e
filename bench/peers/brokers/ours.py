"""PyroMQ's name server and broker as processes, with settings and environment of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from interop.servers import HOST, Server, free_port

SETTINGS = {
    "brokerIP1": HOST,
    "mappedFileSizeCommitLog": str(1 << 30),
    "mappedFileSizeConsumeQueue": str(300_000 * 20),
    "maxHashSlotNum": str(5_000_000),
    "maxIndexNum": str(20_000_000),
    "diskMaxUsedSpaceRatio": "95",
    "enablePropertyFilter": "false",
    "waitTimeMillsInSendQueue": "10000",
    "osPageCacheBusyTimeOutMills": "10000",
    "messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
    "transactionTimeOut": "6000",
    "transactionCheckInterval": "60000",
}
"""For Apache's broker too: the defaults of both, but that a request waits 10 s in line before it is refused as late."""


class NameServer(Server):
    """Our name server; a broker registers, and clients that only know the broker do without."""

    def __init__(self, directory: Path, python: str = sys.executable) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.address = f"{HOST}:{port}"
        command = [python, "-m", "pyromq.cli.main", "namesrv", "--port", str(port)]
        super().__init__(command, directory / "namesrv.log", "ready: ", own_session=True)


class OurBroker(Server):
    """Our broker on a directory of its own."""

    def __init__(
        self,
        directory: Path,
        namesrv: str,
        settings: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
        port: int | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        port = port or free_port()
        self.address = HOST, port
        own = {"listenPort": str(port), "namesrvAddr": namesrv, "storePathRootDir": str(directory / "store")}
        own["rocketmqHome"] = str(directory)
        config = directory / "broker.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in {**SETTINGS, **settings, **own}.items()))
        command = [python, "-m", "pyromq.cli.main", "broker", "-c", str(config)]
        super().__init__(command, directory / "broker.log", "ready: ", environment, own_session=True)


def version(environment: Mapping[str, str] | None = None) -> str:
    """Return what `pyromq --version` says, with the lane that runs."""
    command = [sys.executable, "-m", "pyromq.cli.main", "--version"]
    given = {**os.environ, **(environment or {})}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=given).stdout.strip()
