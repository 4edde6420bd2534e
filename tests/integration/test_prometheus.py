"""A real Prometheus scrapes a real cluster: every query of the dashboard and of the alert rules returns data."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyromq import DeadLetter, Message, MessageExt, RetryLater
from pyromq.blocking import Producer, PushConsumer
from pyromq.clock import SystemClock
from pyromq.protocol.codes import ResponseCode
from pyromq.testing import wait_until
from tests.broker.helpers import Peer
from tests.cli.conftest import Servers, start_up, stop
from tests.console.monitoring.monitoring_files import RULES, dashboard_queries, rule_queries

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is missing: apt-get install prometheus"
)


def fetch(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


class Prometheus:
    """A server that scrapes once a second."""

    def __init__(self, url: str) -> None:
        self._url = url

    def is_ready(self) -> bool:
        """Return True if it answers."""
        try:
            return bool(fetch(f"{self._url}/api/v1/query?query=1"))
        except OSError:
            return False

    def query(self, text: str) -> list[Any]:
        """Return what a query finds now."""
        answer = fetch(f"{self._url}/api/v1/query?{urllib.parse.urlencode({'query': text})}")
        found: list[Any] = answer["data"]["result"]
        return found

    def rule_names(self) -> set[str]:
        """Return the rules that it has loaded."""
        groups = fetch(f"{self._url}/api/v1/rules")["data"]["groups"]
        return {rule["name"] for group in groups for rule in group["rules"]}


@contextmanager
def prometheus(target: str, directory: Path) -> Iterator[Prometheus]:
    scrape = {"job_name": "pyromq", "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
    config = directory / "prometheus.yml"  # JSON is YAML
    config.write_text(json.dumps({"rule_files": [str(RULES)], "scrape_configs": [scrape]}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = ["prometheus", f"--config.file={config}", f"--web.listen-address={address}"]
    command += [f"--storage.tsdb.path={directory / 'data'}", "--log.level=error"]
    with subprocess.Popen(command) as process:
        try:
            running = Prometheus(f"http://{address}")
            wait_until(running.is_ready, "Prometheus answers", pause=0.1)
            yield running
        finally:
            process.terminate()


@contextmanager
def trouble(servers: Servers) -> Iterator[None]:
    """Have a group with retries, a dead letter and a queue that stands still, and a request that is refused."""
    release = threading.Event()
    seen: set[bytes] = set()

    def listen(message: MessageExt) -> None:
        seen.add(message.body)
        if message.body == b"dead":
            raise DeadLetter("for the test")
        if message.body == b"again":
            raise RetryLater
        if message.body == b"stuck":
            release.wait(60)

    with (
        Producer("shop", servers.namesrv) as producer,
        PushConsumer("billing", servers.namesrv, {"orders": "*"}, listen, start_from="earliest"),
    ):
        for body in (b"fine", b"dead", b"again", b"stuck"):
            producer.send(Message("orders", body))
        wait_until(lambda: len(seen) == 4)
        asyncio.run(ask_a_slave(servers.broker.split(",")[1]))
        yield
        release.set()


async def ask_a_slave(address: str) -> None:
    peer = Peer(address, SystemClock())
    await peer.send(expect=ResponseCode.SERVICE_NOT_AVAILABLE)
    await peer.remoting.close()


def test_every_query_of_dashboard_and_rules_returns_data(tmp_path: Path) -> None:
    servers = start_up(tmp_path / "data", "--slaves", "1")
    try:
        with trouble(servers), prometheus(servers.console.removeprefix("http://"), tmp_path) as running:
            queries = {*dashboard_queries(), *rule_queries()}
            missing: set[tuple[str, str]] = set()

            def all_answer() -> bool:
                missing.clear()
                missing.update(each for each in queries if not running.query(each[1]))
                return not missing

            try:
                wait_until(all_answer, seconds=30, pause=0.5)
            except TimeoutError:
                pytest.fail(f"no data: {sorted(missing)}")
            assert running.rule_names() == {name for name, _ in rule_queries()}
            (lag,) = running.query('pyromq_queue_lag_messages{group="billing",topic="orders"}')
            assert lag["value"][1] == "1"
    finally:
        stop(servers)
