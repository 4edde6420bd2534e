"""One trial of a cluster: sends messages, runs the user's program, and checks what it read and wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec import Struct

from pyromq import Message, blocking
from pyromq.spark.options.read_options import read_options
from pyromq.spark.read.batch_reader import BatchReader

JOB = Path(__file__).with_name("cluster_job.py")
MESSAGES = 60


class Trial(Struct, frozen=True, kw_only=True):
    """Where a program runs, and with which Python."""

    kind: str
    """How to reach the cluster: master or remote."""
    address: str
    python: Path
    """The Python of workers and planning processes."""
    ship: bool
    namesrv: str
    topic: str
    directory: Path

    def run(self) -> None:
        """Run it; raises AssertionError if a result is wrong."""
        with blocking.Producer(group="cluster-trial", namesrv=self.namesrv) as producer:
            for number in range(MESSAGES):
                producer.send(Message(topic=self.topic, body=b"%d" % number, keys=[str(number % 7)]))
        result = self._result()
        assert result == {"rows": MESSAGES, "wrong": "unknown option 'subcribe'; did you mean 'subscribe'?"}, result
        for kind in ("frame", "stream"):
            assert Counter(int(row["body"]) for row in self._written(kind)) == Counter(range(MESSAGES)), kind
        query = json.loads((self.directory / self.topic / "metadata").read_text())["id"]
        marks = {dict(row["properties"])["PYROMQ_BATCH"] for row in self._written("stream")}
        assert {mark.rpartition("-")[0] for mark in marks} == {f"{query}-0"}, "a replay would send other ids"

    def _result(self) -> dict[str, Any]:
        how = "ship" if self.ship else "installed"
        arguments = [self.kind, self.address, how, self.namesrv, self.topic, str(self.directory)]
        environment = {**os.environ, "PYSPARK_PYTHON": str(self.python)}
        done = subprocess.run([sys.executable, str(JOB), *arguments], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr[-4000:]
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    def _written(self, kind: str) -> list[dict[str, Any]]:
        return read_topic(self.namesrv, f"{self.topic}-{kind}")


def read_topic(namesrv: str, topic: str, **more: str) -> list[dict[str, Any]]:
    """Return a topic's messages, read without Spark."""
    reader = BatchReader(read_options({"namesrv": namesrv, "subscribe": topic, **more}, streaming=False))
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return [row for batch in batches for row in batch.to_pylist()]
