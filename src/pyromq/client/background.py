"""Background work: a job that repeats at an interval, a log that reports a lasting failure once, and cancellations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from pyromq.clock import Clock, wait_for
from pyromq.errors import PyroMQError


def is_being_cancelled() -> bool:
    """Return True if the running task was asked to stop.

    Otherwise a CancelledError means that the task awaited something that others cancelled: a failure like any other.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def run_all(*steps: Callable[[], Awaitable[object]]) -> None:
    """Run every step, whatever an earlier one raised, for closing; then raise what was raised first."""
    first: BaseException | None = None
    for step in steps:
        try:
            await step()
        except BaseException as error:
            first = first or error
    if first is not None:
        raise first


def error_text(error: object) -> str:
    """Return `str(error)`, also if that fails: users' exceptions may do anything."""
    try:
        return str(error)
    except Exception as fault:
        return f"its text cannot be read, str() raised {type(fault).__name__}"


def log_failure(logger: logging.Logger, level: int, text: str, *values: object, error: BaseException | None) -> None:
    """Log an error of a user's code with its traceback; never raises.

    Formatters that read the error's text, as PySpark's does, get a text that can be read. If a handler fails all the
    same, the line is written without the traceback.
    """
    try:
        logger.log(level, text, *values, exc_info=None if error is None else _readable(error))
    except Exception:
        with suppress(Exception):
            logger.log(level, text, *values)


def _readable(error: BaseException) -> BaseException:
    """Return the error; if its text cannot be read, another one in its place, with the same traceback."""
    try:
        str(error)
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error_text(error)}").with_traceback(error.__traceback__)
    return error


class FailureLog:
    """Logs a failure as a warning if it is new or different, and once more when it is over.

    Errors of others, such as a user's own function, are logged with their traceback.
    """

    def __init__(self, logger: logging.Logger, work: str) -> None:
        self._logger = logger
        self._work = work
        self._last = ""

    def failed(self, error: object) -> None:
        """Note a failure."""
        text = error_text(error) or type(error).__name__
        if text == self._last:
            self._logger.debug("%s failed again: %s", self._work, text)
        else:
            unexpected = error if isinstance(error, Exception) and not isinstance(error, PyroMQError) else None
            log_failure(
                self._logger, logging.WARNING, "%s failed and is tried again: %s", self._work, text, error=unexpected
            )
        self._last = text

    def worked(self) -> None:
        """Note a success."""
        if self._last:
            self._logger.info("%s works again", self._work)
            self._last = ""


logger = logging.getLogger(__name__)

RETRY_DELAYS = (0.1, 0.5, 1.0, 2.0, 5.0)


class Periodic:
    """Calls `work` every `interval` seconds and when woken; retries soon if it failed or returned False."""

    def __init__(self, name: str, clock: Clock, interval: float, work: Callable[[], Awaitable[bool]]) -> None:
        self._name = name
        self._clock = clock
        self._interval = interval
        self._work = work
        self._log = FailureLog(logger, name)
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start; the first call is one interval from now, or when woken."""
        self._task = asyncio.create_task(self._run(), name=f"pyromq {self._name}")

    def wake(self) -> None:
        """Call the work now; if it is running, once more after it."""
        self._woken.set()

    async def stop(self) -> None:
        """Stop, and cancel the work if it is running."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        delay = self._interval
        failures = 0
        while True:
            await self._wait(delay)
            if await self._attempt():
                delay, failures = self._interval, 0
            else:
                delay = min(RETRY_DELAYS[min(failures, len(RETRY_DELAYS) - 1)], self._interval)
                failures += 1

    async def _wait(self, delay: float) -> None:
        with suppress(TimeoutError):
            await wait_for(self._clock, self._woken.wait(), delay)
        self._woken.clear()

    async def _attempt(self) -> bool:
        try:
            finished = await self._work()
        except PyroMQError as error:
            self._log.failed(error)
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            self._log.failed(error)
        except Exception as error:
            log_failure(logger, logging.ERROR, "%s failed and is tried again", self._name, error=error)
        else:
            self._log.worked()
            return finished
        return False
