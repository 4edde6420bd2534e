"""Spark's own servers on this machine, from the pip package: a standalone master with two workers, and Connect servers.

And a Python environment as clusters have it: with everything that Spark needs, and without PyroMQ.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from pyromq.spark.launch.java import prepare_environment
from pyromq.testing import wait_until
from tests.jvms import short_lived_spark

SPARK_HOME = Path(pyspark.__file__).parent
HOST = "127.0.0.1"
PATIENCE = 300.0
_chance = random.SystemRandom()  # tests seed the default one, with the same seed in parallel processes


def environment_without_pyromq(directory: Path, *missing: str) -> Path:
    """Create an environment with this one's packages except PyroMQ and the missing ones; return its python."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(directory)
    packages = directory / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    for path in SPARK_HOME.parent.iterdir():
        if "pyromq" not in path.name and path.name.partition("-")[0] not in missing:
            (packages / path.name).symlink_to(path)
    return directory / "bin" / "python"


def free_port() -> int:
    """Return a port that nobody listens on.

    It is below those that the system gives to connections: one of these could take it before the server is up.
    """
    while True:
        port = _chance.randrange(10_000, 12_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port


class SparkServers:
    """A standalone cluster of two workers, while `with` lasts, and Connect servers on request.

    >>> with SparkServers(tmp_path) as servers:
    ...     servers.master, servers.connect_server(python)
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = ExitStack()
        self.master = f"spark://{HOST}:{free_port()}"

    def __enter__(self) -> Self:
        prepare_environment()
        try:
            self._start_cluster(free_port())
        except BaseException:  # also an interrupt: nothing else would stop these processes
            self._stack.close()
            raise
        return self

    def _start_cluster(self, web: int) -> None:
        port = self.master.rpartition(":")[2]
        self._run("master", _class("master.Master", "--host", HOST, "--port", port, "--webui-port", str(web)))
        for name in ("worker-1", "worker-2"):
            where = ["--host", HOST, "--webui-port", "0", "--work-dir", str(self._directory / name)]
            self._run(name, _class("worker.Worker", *where, "--cores", "2", "--memory", "2g", self.master))
        self._wait(lambda: _workers(web) == 2, "both workers have registered")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def connect_server(self, python: Path, master: str | None = None, more: Mapping[str, str] | None = None) -> str:
        """Start a Connect server with the given Python, for this cluster or another master; return its address."""
        port = free_port()
        conf = {
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(port),
            "spark.ui.enabled": "false",
            "spark.cores.max": "2",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": short_lived_spark(),
            **(more or {}),
        }
        settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--class", _CONNECT, "--master", master or self.master]
        self._run(f"connect-{port}", [*command, *settings, "spark-internal"], {"PYSPARK_PYTHON": str(python)})
        self._wait(lambda: _listens(port), "the Connect server listens")
        return f"sc://{HOST}:{port}"

    def _run(self, name: str, command: Sequence[str], more: Mapping[str, str] | None = None) -> None:
        log = self._stack.enter_context((self._directory / f"{name}.log").open("wb"))
        fixed = {"SPARK_HOME": str(SPARK_HOME), "SPARK_DAEMON_JAVA_OPTS": short_lived_spark()}
        environment = {**os.environ, **fixed, **(more or {})}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=self._directory)
        self._stack.callback(_end, process)

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        try:
            wait_until(condition, what, seconds=PATIENCE, pause=0.1)
        except TimeoutError as error:
            logs = "\n".join(path.read_text()[-2000:] for path in self._directory.glob("*.log"))
            raise TimeoutError(f"{error}\n{logs}") from None


_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"


def _class(name: str, *arguments: str) -> list[str]:
    return [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _workers(web: int) -> int:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{web}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError):  # a master that is just starting answers with a page instead
        return 0


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
