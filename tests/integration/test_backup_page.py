"""The commands of docs/backup.md, on a broker at work: the copy passes `verify`, and a broker starts and serves it."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from pyromq import LitePullConsumer, Message, blocking
from pyromq.testing import LocalCluster, wait_until
from tests.cli.conftest import pyromq, pyromq_here, start_up, stop

ROOT = Path(__file__).parent.parent.parent
LINES: list[str] = re.findall(r"^pyromq (.*?)(?:\s+#.*)?$", (ROOT / "docs" / "backup.md").read_text(), re.MULTILINE)


def documented(verb: str, store: Path, copy: Path) -> list[str]:
    """Return a command of the page, with other directories."""
    (line,) = (line for line in LINES if line.startswith(verb))
    return line.replace("/data/store", str(store)).replace("/backup/monday", str(copy)).split()


@contextmanager
def load(namesrv: str) -> Iterator[list[bytes]]:
    """Send all the time; the list has the acknowledged bodies."""
    sent: list[bytes] = []
    over = threading.Event()

    def send() -> None:
        with blocking.Producer("shop", namesrv) as producer:
            while not over.is_set():
                body = b"%d" % len(sent)
                producer.send(Message(topic="orders", body=body, keys=[f"o-{len(sent)}"]))
                sent.append(body)
                over.wait(0.005)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        over.set()
        thread.join()


def bodies(namesrv: str) -> set[bytes]:
    with blocking.AdminClient(namesrv) as admin:
        return {message.body for message in admin.read("orders")}


async def commit_something(namesrv: str) -> None:
    async with LitePullConsumer("audit", namesrv, {"orders": "*"}, start_from="earliest") as consumer:
        await consumer.poll(timeout=10)
        await consumer.commit()


async def test_the_documented_commands_back_up_a_broker_at_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, copy = tmp_path / "up" / "store", tmp_path / "copy"
    servers = start_up(tmp_path / "up", "--set", "flushConsumerOffsetInterval=50")
    try:
        with blocking.Producer("later", servers.namesrv) as producer:
            producer.send(Message(topic="orders", body=b"later"), delay=timedelta(hours=1))
        with load(servers.namesrv) as sent:
            wait_until(lambda: len(sent) > 100)
            await commit_something(servers.namesrv)
            wait_until(lambda: any(b"audit" in path.read_bytes() for path in store.glob("config/consumerOffset.json*")))
            before = set(sent)
            done = pyromq(*documented("store backup", store, copy))
            assert (done.returncode, done.stderr) == (0, "")
            after = len(sent)
            wait_until(lambda: len(sent) > after + 20)  # it did not hold up the broker
    finally:
        assert stop(servers) == 0
    verified = pyromq_here(*documented("store verify", store, copy))
    assert verified.returncode == 0, verified.stdout
    inspected = pyromq_here(*documented("store inspect", store, copy), "--json")
    offsets = [json.loads(line) for line in inspected.stdout.splitlines() if '"offset"' in line]
    assert "audit" in {line["group"] for line in offsets if line["kind"] == "offset"}
    assert_it_starts(copy, tmp_path, before)
    assert "another program" not in caplog.text


def assert_it_starts(copy: Path, tmp_path: Path, before: set[bytes]) -> None:
    """Start a broker with the copy, as the page says for a restore."""
    (restore,) = (line for line in LINES if line.startswith("broker "))
    assert restore.endswith("--data /data")
    (tmp_path / "again").mkdir()
    subprocess.run(["cp", "-a", "--sparse=always", copy, tmp_path / "again" / "store"], check=True)
    with LocalCluster(data=tmp_path / "again") as cluster:
        assert bodies(cluster.namesrv) >= before
        with blocking.AdminClient(cluster.namesrv) as admin:
            assert [one.topic for one in admin.timed_messages.pending("orders")] == ["orders"]
        with blocking.Producer("shop", cluster.namesrv) as producer:
            producer.send(Message(topic="orders", body=b"new"))
