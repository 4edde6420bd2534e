"""Apache's Java client, driven by tests: one JVM that runs the scenarios of java/, one call after another."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from interop.servers import BROKER_NAME, JAVA_OPTIONS
from interop.toolkit import Toolkit

Fact = dict[str, Any]

_names = itertools.count()


class Peer:
    """A JVM with Apache's client inside."""

    def __init__(self, toolkit: Toolkit, directory: Path, *options: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        own = [
            f"-Duser.home={directory}",
            f"-Drocketmq.client.logRoot={directory}",
            f"-Drocketmq.client.localOffsetStoreDir={directory}/offsets",
            "-Drocketmq.client.logLevel=WARN",
            "-Drocketmq.client.rebalance.waitInterval=2000",
            "-DJM.LOG.PATH=" + str(directory),
        ]
        classes = f"{toolkit.programs}:{toolkit.client}/*"
        self._errors = (directory / "errors.log").open("ab")
        self._process = subprocess.Popen(
            [str(toolkit.java), *JAVA_OPTIONS, *own, *options, "-cp", classes, "Peer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=directory,  # mqadmin leaves files where it runs
            text=True,
            env={**os.environ, "ROCKETMQ_HOME": str(toolkit.home)},
        )
        self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._errors.close()

    def call(self, scenario: str, **arguments: object) -> Any:
        """Run a scenario and return its result; raise AssertionError with Java's stack if it fails."""
        given = {name: value for name, value in arguments.items() if value is not None}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": scenario, **given}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._read())
        assert "failed" not in answer, f"{scenario}: {answer['failed']}"
        return answer["result"]

    @contextmanager
    def push(self, namesrv: str, group: str, topic: str, **options: object) -> Iterator[JavaConsumer]:
        """Run a push consumer within the context."""
        name = f"push-{next(_names)}"
        self.call("Push.start", name=name, namesrv=namesrv, group=group, topic=topic, **options)
        try:
            yield JavaConsumer(self, name)
        finally:
            self.call("Push.stop", name=name)

    @contextmanager
    def lite(self, namesrv: str, group: str, topic: str, queue: int) -> Iterator[JavaLitePull]:
        """Run a lite pull consumer of all queues of a topic within the context; most calls concern one queue."""
        name = f"lite-{next(_names)}"
        self.call("Lite.start", name=name, namesrv=namesrv, group=group, topic=topic)
        try:
            yield JavaLitePull(self, name, topic, queue)
        finally:
            self.call("Lite.stop", name=name)

    @contextmanager
    def transactions(self, namesrv: str, group: str) -> Iterator[JavaTransactions]:
        """Run a transaction producer within the context."""
        name = f"transactions-{next(_names)}"
        self.call("Transactions.start", name=name, namesrv=namesrv, group=group)
        try:
            yield JavaTransactions(self, name)
        finally:
            self.call("Transactions.stop", name=name)

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the JVM ended: {(self._directory / 'errors.log').read_text()[-4000:]}"
        return line


class JavaConsumer:
    """A push consumer inside a peer."""

    def __init__(self, peer: Peer, name: str) -> None:
        self._peer = peer
        self._name = name

    def take(self, count: int, seconds: float = 30.0) -> list[Fact]:
        """Wait for `count` messages and return them; fewer if they do not arrive in time."""
        taken: list[Fact] = self._peer.call("Push.take", name=self._name, count=count, milliseconds=int(seconds * 1000))
        return taken

    def take_all(self, bodies: set[str], repeats: set[str] | None = None) -> None:
        """Wait until all of these have arrived; repeats are allowed, or only those in `repeats`."""
        missing = set(bodies)
        while missing:
            taken = self.take(1)
            assert taken, f"never came: {missing}"
            body = taken[0]["body"]
            assert body in missing or repeats is None or body in repeats, f"came without need: {body}"
            missing.discard(body)

    def rest(self, seconds: float = 1.0) -> list[Fact]:
        """Return what arrives within a time in which nothing should."""
        taken: list[Fact] = self._peer.call("Push.take", name=self._name, milliseconds=int(seconds * 1000))
        return taken

    def suspend(self) -> None:
        """Suspend it."""
        self._peer.call("Push.suspend", name=self._name)

    def resume(self) -> None:
        """Resume it."""
        self._peer.call("Push.resume", name=self._name)

    @property
    def client_id(self) -> str:
        """Its client id, as other members know it."""
        found: str = self._peer.call("Push.id", name=self._name)
        return found

    def queues(self) -> list[tuple[str, str, int]]:
        """Return the queues assigned to it now."""
        return [(topic, broker, number) for topic, broker, number in self._peer.call("Push.queues", name=self._name)]


class JavaLitePull:
    """A lite pull consumer inside a peer."""

    def __init__(self, peer: Peer, name: str, topic: str, queue: int) -> None:
        self._peer = peer
        self._place = {"name": name, "topic": topic, "broker": BROKER_NAME, "queue": queue}

    def poll(self, count: int, seconds: float = 30.0) -> list[Fact]:
        """Poll until `count` messages have arrived or the time is up."""
        polled: list[Fact] = self.do("poll", count=count, milliseconds=int(seconds * 1000))
        return polled

    def do(self, what: str, **arguments: object) -> Any:
        """Call another method of the lite consumer for the queue."""
        return self._peer.call(f"Lite.{what}", **self._place, **arguments)


class JavaTransactions:
    """A transaction producer inside a peer."""

    def __init__(self, peer: Peer, name: str) -> None:
        self._peer = peer
        self._name = name

    def send(self, topic: str, number: int, execute: str, check: str = "UNKNOW") -> Fact:
        """Send one message; `execute` and `check` are the answers of Java's listener."""
        sent: Fact = self._peer.call(
            "Transactions.send", name=self._name, topic=topic, number=number, execute=execute, check=check
        )
        return sent

    def checked(self, seconds: float = 40.0) -> Fact | None:
        """Wait until the broker has checked a message's transaction."""
        asked: Fact | None = self._peer.call("Transactions.checked", name=self._name, milliseconds=int(seconds * 1000))
        return asked
