"""Runs a project of Declarative Pipelines twice, as `spark-pipelines` does, on the Connect server of SPARK_REMOTE.

project_runs.py SPECIFICATION NAMESRV
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.pipelines.cli import run

from pyromq import Message, blocking


def main(specification: Path, namesrv: str) -> None:
    with blocking.Producer(group="project", namesrv=namesrv) as producer:
        for start in (0, 3):
            for number in range(start, start + 3):
                body = b'{"order_id": %d, "state": "paid", "cents": %d}' % (number, number * 10_000)
                producer.send(Message(topic="project-orders", body=body, keys=[f"o-{number}"]))
            run(specification, full_refresh=[], full_refresh_all=False, refresh=[], dry=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
