"""PyroMQ's broker as a process, with settings and environment of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from interop.servers import HOST, Server, free_port

SETTINGS = {
    "brokerIP1": HOST,
    "mappedFileSizeCommitLog": str(1 << 30),
    "diskMaxUsedSpaceRatio": "95",
}
"""For Apache's broker too."""


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
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.address = HOST, port
        own = {"listenPort": str(port), "namesrvAddr": namesrv, "storePathRootDir": str(directory / "store")}
        config = directory / "broker.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in {**SETTINGS, **settings, **own}.items()))
        command = [python, "-m", "pyromq.cli.main", "broker", "-c", str(config)]
        super().__init__(command, directory / "broker.log", "ready: ", environment, own_session=True)
