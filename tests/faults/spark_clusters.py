"""Every way to a Spark cluster, on one machine: directly and over Connect, with PyroMQ on it and without.

python -m tests.faults.spark_clusters
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from pyromq.errors import ConfigError
from pyromq.spark.session import session
from pyromq.testing import LocalCluster
from tests.spark.cluster_trial import Trial
from tests.spark.spark_servers import SparkServers, environment_without_pyromq

LOCAL = "local[2]"


class Way(NamedTuple):
    """How a program gets to its executors."""

    kind: str
    server: str
    """For Connect: which master its server has."""
    ship: bool

    def __str__(self) -> str:
        place = "standalone" if self.kind == "master" else f"Connect, {self.server or 'standalone'}"
        return f"{place}, {'shipped' if self.ship else 'installed'}"


WAYS = [
    Way("master", "", ship=True),
    Way("master", "", ship=False),
    Way("remote", "", ship=True),
    Way("remote", LOCAL, ship=True),
    Way("remote", LOCAL, ship=False),
]


def try_way(way: Way, servers: SparkServers, bare: Path, namesrv: str, directory: Path) -> str:
    """Return what is wrong with it, empty if nothing is."""
    python = bare if way.ship else Path(sys.executable)
    address = servers.master if way.kind == "master" else servers.connect_server(python, way.server or None)
    topic = f"way-{WAYS.index(way)}"
    trial = Trial(
        kind=way.kind,
        address=address,
        python=python,
        ship=way.ship,
        namesrv=namesrv,
        topic=topic,
        directory=directory,
    )
    try:
        trial.run()
    except AssertionError as error:
        return str(error)
    return ""


def refuses_speculation(servers: SparkServers) -> bool:
    """Tell whether a session of a Connect server that speculates is refused."""
    address = servers.connect_server(Path(sys.executable), LOCAL, {"spark.speculation": "true"})
    try:
        session("speculates", remote=address).stop()
    except ConfigError as error:
        return "speculation" in str(error)
    return False


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
                wrong = try_way(way, servers, bare, cluster.namesrv, directory)
                good = good and not wrong
                print(
                    f"{way}: {wrong or 'batch, stream and sink are right'}, {time.monotonic() - started:.0f} s",
                    flush=True,
                )
            refused = refuses_speculation(servers)
            print(f"Connect with spark.speculation=true: {'refused' if refused else 'NOT refused'}", flush=True)
    return 0 if good and refused else 1


if __name__ == "__main__":
    sys.exit(main())
