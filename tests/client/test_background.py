from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from pyromq.client.background import FailureLog, Periodic, is_being_cancelled, log_failure, run_all
from pyromq.clock import SystemClock
from pyromq.errors import PyroMQError
from pyromq.testing import eventually


class Unreadable(Exception):
    """An exception that cannot be looked at."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Reads(logging.Handler):
    """A handler that reads the text of every error, as PySpark's formatter does."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            str(record.exc_info[1])


@pytest.fixture
def reading() -> Iterator[None]:
    """All that is logged passes a handler that reads errors."""
    handler = Reads()
    logging.getLogger("pyromq").addHandler(handler)
    yield
    logging.getLogger("pyromq").removeHandler(handler)


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize("error", [asyncio.CancelledError(), Unreadable(), PyroMQError("not now"), ValueError("no")])
async def test_periodic_work_goes_on_after_any_failure(error: BaseException) -> None:
    calls = 0

    async def work() -> bool:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise error
        return True

    periodic = Periodic("work", SystemClock(), 0.001, work)
    periodic.start()
    await eventually(lambda: calls >= 3)
    await periodic.stop()


async def test_stopping_cancels_the_work() -> None:
    begun = asyncio.Event()
    cancelled: list[bool] = []

    async def work() -> bool:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(is_being_cancelled())
            raise
        return True

    periodic = Periodic("work", SystemClock(), 0.001, work)
    periodic.start()
    await begun.wait()
    await periodic.stop()
    assert cancelled == [True]


@pytest.mark.usefixtures("reading")
def test_a_failure_whose_text_cannot_be_read_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    log_failure(logging.getLogger("pyromq.x"), logging.WARNING, "%s is %s", "paint", "wet", error=Unreadable())
    (record,) = caplog.records
    assert record.getMessage() == "paint is wet"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "Unreadable: its text cannot be read, str() raised RuntimeError"


def test_a_handler_that_takes_no_traceback_gets_the_line_without(caplog: pytest.LogCaptureFixture) -> None:
    class Refuses(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            assert not record.exc_info

    strict = logging.getLogger("pyromq.strict")
    strict.addHandler(Refuses())
    log_failure(strict, logging.WARNING, "%s is %s", "paint", "wet", error=ValueError("no"))
    assert [record.getMessage() for record in caplog.records] == ["paint is wet"]


def test_a_lasting_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = FailureLog(logging.getLogger("test"), "painting")
    for error in (ValueError("wet"), ValueError("wet"), asyncio.CancelledError(), Unreadable()):
        log.failed(error)
    log.worked()
    assert [record.getMessage() for record in caplog.records] == [
        "painting failed and is tried again: wet",
        "painting failed and is tried again: CancelledError",
        "painting failed and is tried again: its text cannot be read, str() raised RuntimeError",
        "painting works again",
    ]


async def test_every_step_of_closing_runs_and_the_first_failure_is_raised() -> None:
    done: list[str] = []

    async def good() -> None:
        done.append("good")

    async def bad() -> None:
        done.append("bad")
        raise ValueError("the first")

    async def worse() -> None:
        raise OSError("the second")

    with pytest.raises(ValueError, match="the first"):
        await run_all(good, bad, worse, good)
    assert done == ["good", "bad", "good"]
    await run_all(good)
    assert done[-1] == "good"
