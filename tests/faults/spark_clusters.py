"""Every way to a Spark cluster, on one machine: directly and over Connect, with PyroMQ on it and without.

A program reads, streams and writes on each. On standalone clusters the shipped pipelines run too.

python -m tests.faults.spark_clusters
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pyromq.testing import LocalCluster
from tests.spark.cluster.cluster_job import CONF
from tests.spark.cluster.cluster_pipelines import ALL, PipelineTrial, as_options, run_pipeline
from tests.spark.cluster.cluster_trial import Trial
from tests.spark.cluster.spark_servers import SparkServers, environment_without_pyromq

LOCAL = "local[2]"


class Way(NamedTuple):
    """How a program reaches its executors."""

    kind: str
    server: str
    """For Connect: which master its server has."""
    ship: bool

    def __str__(self) -> str:
        place = "standalone" if self.kind == "master" else f"Connect, {self.server or 'standalone'}"
        return f"{place}, {'shipped' if self.ship else 'installed'}"

    @property
    def right(self) -> str:
        """The expected result."""
        return ", ".join(["batch, stream and sink", *self.pipelines]) + " are right"

    @property
    def pipelines(self) -> Sequence[str]:
        """All ways that are tried."""
        return () if self.server else ALL


WAYS = [
    Way("master", "", ship=True),
    Way("master", "", ship=False),
    Way("remote", "", ship=True),
    Way("remote", LOCAL, ship=True),
    Way("remote", LOCAL, ship=False),
]


def try_way(way: Way, servers: SparkServers, bare: Path, cluster: LocalCluster, directory: Path) -> str:
    """Return what is wrong with it, an empty text if nothing is."""
    python = bare if way.ship else Path(sys.executable)
    address = servers.master if way.kind == "master" else servers.connect_server(python, way.server or None)
    topic = f"way-{WAYS.index(way)}"
    trial = Trial(
        kind=way.kind,
        address=address,
        python=python,
        ship=way.ship,
        namesrv=cluster.namesrv,
        topic=topic,
        directory=directory,
    )
    pipelines = PipelineTrial(
        kind=way.kind,
        address=address,
        python=python,
        ship=way.ship,
        cluster=cluster,
        topic=f"{topic}-numbers",
        directory=directory,
    )
    try:
        trial.run()
        pipelines.run(way.pipelines)
    except AssertionError as error:
        return str(error)
    return ""


def refusals(servers: SparkServers, namesrv: str) -> Iterator[tuple[str, bool]]:
    """Yield what must be refused, and whether it was."""
    address = servers.connect_server(Path(sys.executable), LOCAL, {"spark.speculation": "true"})
    archive = ["archive", "-n", namesrv, "--topics", "way-0", "--to"]
    commands = {
        "a Connect server that speculates": (["--remote", address], "/tmp/x", "spark.speculation=true"),
        "a master with spark.speculation": (
            ["--master", servers.master, "--conf", "spark.speculation=true"],
            "/tmp/x",
            "spark.speculation=true",
        ),
        "a directory that only the driver sees": (
            ["--master", servers.master, *as_options(CONF)],
            "/proc/self/cwd/archive",  # a different directory in each process
            "do not see /proc/self/cwd/archive",
        ),
    }
    for what, (place, to, line) in commands.items():
        done = run_pipeline([*archive, to, *place])
        yield what, done.returncode == 1 and line in done.stderr and "Traceback" not in done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", type=int, nargs="*", default=range(len(WAYS)), help="only these, counted from 0")
    options = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory(prefix="pyromq-clusters-") as name, LocalCluster() as cluster:
        directory = Path(name)
        bare = environment_without_pyromq(directory / "bare")
        with SparkServers(directory) as servers:
            for way in [WAYS[number] for number in options.ways]:
                started = time.monotonic()
                wrong = try_way(way, servers, bare, cluster, directory)
                good = good and not wrong
                print(
                    f"{way}: {wrong or way.right}, {time.monotonic() - started:.0f} s",
                    flush=True,
                )
            for what, refused in refusals(servers, cluster.namesrv):
                good = good and refused
                print(f"{what}: {'refused' if refused else 'NOT refused'}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
