"""Clients of others, written in Java, beside ours: Kafka's producer and Apache RocketMQ's push consumer.

Each is one file in java/, which Java compiles as it starts it. They print the line that client_load.py prints.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from contextlib import ExitStack
from pathlib import Path

from interop.toolkit import cache_directory, find_java, resolve

from .brokers.ours import OurBroker
from .kafka import Kafka

_HERE = Path(__file__).parent
_CLIENT_POM = _HERE.parents[1] / "interop" / "poms" / "client.xml"
_PARTITIONS = 4
_LINGER_MS = "2"
_TIMEOUT = 120


class KafkaProducer:
    """Kafka's own producer, with a broker of its own that flushes as ours does."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._java = find_java()
        self._jars = resolve(cache_directory(), _HERE / "poms" / "kafka.xml")
        server = Kafka(self._java, self._jars, directory, _PARTITIONS, "log.flush.interval.ms=500\n")
        self._server = stack.enter_context(server)
        self.pid = self._server.pid

    def run(self, seconds: float, size: int) -> dict[str, float]:
        """Send for some seconds; return messages, rate and CPU microseconds per message of the client."""
        return _run(
            self._java, self._jars, "KafkaSend", [self._server.address, "bench", str(seconds), str(size), _LINGER_MS]
        )


class JavaPushConsumer:
    """Apache RocketMQ's push consumer, at a broker of ours."""

    def __init__(self, namesrv: str, broker: OurBroker) -> None:
        self._java = find_java()
        self._jars = resolve(cache_directory(), _CLIENT_POM)
        self._namesrv = namesrv
        self.pid = broker.pid

    def run(self, topic: str, messages: int) -> dict[str, float]:
        """Consume so many messages; return the same."""
        group = f"bench-{uuid.uuid4().hex}"
        return _run(self._java, self._jars, "PushConsume", [self._namesrv, topic, group, str(messages)])


def _run(java: Path, jars: Path, program: str, arguments: list[str]) -> dict[str, float]:
    quiet = ["-Drocketmq.client.logUseSlf4j=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command = [str(java), "-Xms512m", "-Xmx512m", *quiet, "-cp", f"{jars}/*", str(_HERE / "java" / f"{program}.java")]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=_TIMEOUT, start_new_session=True
    )
    if done.returncode:
        raise SystemExit(f"{program}: {done.stderr.strip()[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
