"""The pipelines on a cluster, started by their commands; output and results are checked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from msgspec import Struct

from pyromq import Message, blocking
from pyromq.pipelines.widen import backlog
from pyromq.testing import LocalCluster
from tests.pipelines.conftest import make_topic, numbered
from tests.spark.cluster.cluster_job import CONF
from tests.spark.cluster.cluster_trial import read_topic

NUMBERS = range(1, 301)
ORDERS, RUBBISH = 40, 3
ALL = ("archive", "replay", "widen", "report", "orders")
_KEYS = 7


class PipelineTrial(Struct, frozen=True, kw_only=True):
    """Where pipelines run, and with which Python."""

    kind: str
    """How to reach the cluster: master or remote."""
    address: str
    python: Path
    """The Python of workers and planning processes."""
    ship: bool
    cluster: LocalCluster
    topic: str
    directory: Path

    def run(self, names: Sequence[str] = ALL) -> None:
        """Run pipelines one after another; raises AssertionError if a result is wrong."""
        make_topic(self.cluster, self.topic, 2)
        with blocking.Producer(group="cluster-trial", namesrv=self.cluster.namesrv) as producer:
            for message in numbered(self.topic, NUMBERS, _KEYS):
                producer.send(message, order_key=message.keys[0])
        for name in names:
            getattr(self, f"_{name}")()

    # --- one method for each ---------------------------------------------------------------------------------------

    def _archive(self) -> None:
        done = self._command("archive", "--topics", self.topic, "--to", self._archived)
        assert (done["read"], done["written"]) == (len(NUMBERS), len(NUMBERS)), done
        again = self._command("archive", "--topics", self.topic, "--to", self._archived)
        assert again["read"] == 0, "the checkpoint was not found again"
        flags = [flag for path in Path(self._archived).rglob("*.parquet") for flag in _column(path, "flag")]
        assert sorted(flags) == list(NUMBERS)

    def _replay(self) -> None:
        make_topic(self.cluster, f"{self.topic}-again", 8)
        done = self._command("replay", "--archive", self._archived, "--to", f"{self.topic}-again")
        assert (done["read"], done["written"]) == (len(NUMBERS), len(NUMBERS)), done
        self._check_copies(f"{self.topic}-again")

    def _widen(self) -> None:
        wide, group = f"{self.topic}-wide", f"{self.topic}-group"
        options = ["--topic", self.topic, "--group", group, "--to", wide, "--queues", "8", "--batch", "100"]
        done = self._command("widen", *options, "--checkpoint", str(self.directory / f"{self.topic}-widen"))
        assert (done["read"], done["written"]) == (len(NUMBERS), len(NUMBERS)), done
        assert backlog(self.cluster.namesrv, self.topic, group) == 0, "the group's offsets did not follow"
        self._check_copies(wide)

    def _report(self) -> None:
        page = self.directory / f"{self.topic}.html"
        done = self._command("report", "--topics", self.topic, "--out", str(page))
        assert done["read"] == len(NUMBERS), done
        assert self.topic in page.read_text()

    def _orders(self) -> None:
        names = {kind: f"{self.topic}-{kind}" for kind in ("orders", "rejects", "totals")}
        with blocking.Producer(group="cluster-trial", namesrv=self.cluster.namesrv) as producer:
            for number in range(ORDERS):
                body = json.dumps({"order_id": number, "state": "paid", "cents": number}).encode()
                producer.send(Message(topic=names["orders"], body=body))
            for _ in range(RUBBISH):
                producer.send(Message(topic=names["orders"], body=b"rubbish"))
        out = self.directory / names["orders"]
        topics = ["--topic", names["orders"], "--rejects", names["rejects"], "--totals", names["totals"]]
        done = self._command("orders", *topics, "--out", str(out), "--parts", "2", "--window", "1 day")
        assert (done["read"], done["written"]) == (ORDERS + RUBBISH, ORDERS), done
        kept = [number for path in (out / "orders").glob("*.parquet") for number in _column(path, "order_id")]
        assert sorted(kept) == list(range(ORDERS))
        assert len(read_topic(self.cluster.namesrv, names["rejects"])) == RUBBISH
        totals = {row["keys"][0]: json.loads(row["body"]) for row in read_topic(self.cluster.namesrv, names["totals"])}
        assert sum(total["cents"] for total in totals.values()) == sum(range(ORDERS)), totals

    # --- what they share -------------------------------------------------------------------------------------------

    @property
    def _archived(self) -> str:
        return str(self.directory / f"{self.topic}-archive")

    def _command(self, name: str, *options: str) -> dict[str, Any]:
        """Run a pipeline; return its closing line."""
        place = [f"--{self.kind}", self.address, *(["--ship"] if self.ship else [])]
        place += as_options(CONF) if self.kind == "master" else []
        done = run_pipeline([name, "-n", self.cluster.namesrv, *options, *place, "--json"], self.python)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr[-4000:]}"
        outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return outcome

    def _check_copies(self, topic: str) -> None:
        """Assert that each number is stored once, and each key in one queue, in order."""
        rows = read_topic(self.cluster.namesrv, topic, columns="queue_id,queue_offset,keys,flag")
        rows.sort(key=lambda row: (row["queue_id"], row["queue_offset"]))
        assert sorted(row["flag"] for row in rows) == list(NUMBERS), topic
        for key in range(_KEYS):
            mine = [row for row in rows if row["keys"][0] == f"k{key}"]
            assert [row["flag"] for row in mine] == sorted(row["flag"] for row in mine), f"{topic}: out of order"
            assert len({row["queue_id"] for row in mine}) == 1, f"{topic}: a key in several queues"


def run_pipeline(arguments: Sequence[str], python: Path = Path(sys.executable)) -> subprocess.CompletedProcess[str]:
    """Run `pyromq pipeline run` to its end, with workers of that Python."""
    command = [sys.executable, "-m", "pyromq.cli.main", "pipeline", "run", *arguments]
    environment = {**os.environ, "PYSPARK_PYTHON": str(python)}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def as_options(conf: Mapping[str, str]) -> list[str]:
    """Return settings of Spark as the command takes them."""
    return [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]


def _column(path: Path, name: str) -> list[Any]:
    values: list[Any] = pq.ParquetFile(path).read(columns=[name])[name].to_pylist()
    return values
