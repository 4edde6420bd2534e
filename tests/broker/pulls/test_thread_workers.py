from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from pyromq.broker.pulls.thread_workers import ThreadWorkers
from pyromq.errors import SystemBusy
from pyromq.testing import eventually


class Gate:
    """A call that ends when the test says so."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.entered: list[str] = []

    def __call__(self) -> str:
        self.entered.append(threading.current_thread().name)
        assert self.is_open.wait(60)
        return "done"


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    gate = Gate()
    yield gate
    gate.is_open.set()


async def test_a_call_runs_in_a_thread_of_its_kind() -> None:
    workers = ThreadWorkers("pyromq-test", 1)
    assert await workers.run(lambda: threading.current_thread().name) == "pyromq-test_0"
    with pytest.raises(ZeroDivisionError):
        await workers.run(divmod, 1, 0)
    assert workers.unfinished == 0
    workers.close()


async def test_a_call_can_be_started_and_waited_for_later(gate: Gate) -> None:
    workers = ThreadWorkers("pyromq-test", 1)
    call = workers.start(gate)
    assert workers.unfinished == 1
    gate.is_open.set()
    assert await call == "done"
    assert workers.unfinished == 0
    workers.close()


async def test_no_more_calls_run_at_a_time_than_there_are_threads(gate: Gate) -> None:
    workers = ThreadWorkers("pyromq-test", 2)
    calls = [asyncio.ensure_future(workers.run(gate)) for _ in range(5)]
    await eventually(lambda: len(gate.entered) == 2)
    assert workers.unfinished == 5
    gate.is_open.set()
    assert await asyncio.gather(*calls) == ["done"] * 5
    assert set(gate.entered) <= {"pyromq-test_0", "pyromq-test_1"}
    workers.close()


async def test_calls_beyond_the_limit_are_refused(gate: Gate) -> None:
    workers = ThreadWorkers("pyromq-test", 1, most_waiting=2)
    calls = [asyncio.ensure_future(workers.run(gate)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(SystemBusy, match="2 calls"):
        await workers.run(gate)
    gate.is_open.set()
    await asyncio.gather(*calls)
    assert await workers.run(gate) == "done"
    workers.close()


async def test_closing_drops_what_waits_and_does_not_wait_for_what_runs(gate: Gate) -> None:
    workers = ThreadWorkers("pyromq-test", 1)
    running = asyncio.ensure_future(workers.run(gate))
    await eventually(lambda: bool(gate.entered))
    waiting = asyncio.ensure_future(workers.run(gate))
    await asyncio.sleep(0)
    workers.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.is_open.set()
    assert await running == "done"
