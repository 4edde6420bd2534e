"""Runs a project of Declarative Pipelines twice, with new messages before each run, as `pyromq pipeline run` does.

project_runs.py DIRECTORY NAMESRV
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyromq import Message, blocking
from pyromq.pipelines import project


def main(directory: Path, namesrv: str) -> None:
    with blocking.Producer(group="project", namesrv=namesrv) as producer:
        for start in (0, 3):
            for number in range(start, start + 3):
                body = b'{"order_id": %d, "state": "paid", "cents": %d}' % (number, number * 10_000)
                producer.send(Message(topic="project-orders", body=body, keys=[f"o-{number}"]))
            project.execute(directory, dry=False, master="local[2]", remote=None, conf={})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
