"""How processes share a load."""

from __future__ import annotations

import pickle

import pytest

from pyromq.cli.bench.loads import SendLoad

LOAD = SendLoad(
    addresses=[("127.0.0.1", 10911)], topic="t", connections=8, in_flight=2, duration=1.0, warm_up=0.0, count=1000,
    rate=4000.0, broker_pids=[7], queues=4, size=10, tag="", seed="0" * 16,
)  # fmt: skip


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_the_parts_are_the_whole(processes: int) -> None:
    parts = LOAD.shared(processes)
    assert sum(part.connections for part in parts) == 8
    assert min(part.connections for part in parts) >= 1
    assert sum(part.count for part in parts) == 1000
    assert sum(part.rate for part in parts) == pytest.approx(4000.0)
    assert [part.broker_pids for part in parts] == [[7]] + [()] * (processes - 1), "one of them looks at the broker"
    assert pickle.loads(pickle.dumps(parts)) == parts


def test_no_two_slots_of_all_processes_make_the_same_message() -> None:
    first = [part.slot(index).next_request() for part in LOAD.shared(3) for index in range(4)]
    ids = {frame[frame.index(b"UNIQ_KEY") :][:46] for frame in first}
    assert len(ids) == len(first)
