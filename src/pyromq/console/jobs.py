"""Jobs: work that goes on after its request was answered, such as the resize of a topic; pages show how far it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct

from pyromq.clock import Clock
from pyromq.errors import ClientError, PyroMQError

logger = logging.getLogger(__name__)

KEPT: Final = 600.0
"""Seconds for which a finished job is shown."""


class ConsoleJob(Struct, kw_only=True):
    """One piece of work."""

    key: str
    user: str
    progress: Any = None
    """What the work says about itself."""
    state: str = "running"
    """`running`, `done`, `failed` or `stopped`."""
    reason: str = ""
    ended: float = 0.0

    @property
    def is_running(self) -> bool:
        """Whether it goes on."""
        return self.state == "running"


class Jobs:
    """All jobs of a console, by key; one at a time for a key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: dict[str, ConsoleJob] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def get(self, key: str) -> ConsoleJob | None:
        """Return the job that runs or just ended; None if there is none."""
        job = self._jobs.get(key)
        if job is not None and not job.is_running and self._clock.monotonic() - job.ended > KEPT:
            del self._jobs[key]
            return None
        return job

    def all(self) -> list[ConsoleJob]:
        """Return all jobs that run or just ended."""
        return [job for key in list(self._jobs) if (job := self.get(key)) is not None]

    def start(self, key: str, user: str, work: Callable[[ConsoleJob], Awaitable[None]]) -> ConsoleJob:
        """Begin some work; raise ClientError if there is such a job already."""
        known = self.get(key)
        if known is not None and known.is_running:
            raise ClientError("this is already being done; wait until it has ended")
        job = self._jobs[key] = ConsoleJob(key=key, user=user)
        self._tasks[key] = asyncio.create_task(self._run(job, work))
        return job

    def stop(self, key: str) -> bool:
        """Stop a job; return False if there is none that runs."""
        task = self._tasks.get(key)
        return task is not None and task.cancel()

    async def close(self) -> None:
        """Stop all."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(self, job: ConsoleJob, work: Callable[[ConsoleJob], Awaitable[None]]) -> None:
        try:
            await work(job)
            job.state = "done"
        except asyncio.CancelledError:
            job.state = "stopped"
            raise
        except PyroMQError as error:
            job.state, job.reason = "failed", str(error)
        except Exception as error:
            logger.exception("job failed key=%s", job.key)
            job.state, job.reason = "failed", str(error)
        finally:
            job.ended = self._clock.monotonic()
            self._tasks.pop(job.key, None)
