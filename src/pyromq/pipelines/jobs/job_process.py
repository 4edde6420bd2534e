"""The process of a job: runs its pipeline to the end and writes how far it is. SIGTERM ends it after a batch."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from pyromq.errors import PyroMQError
from pyromq.pipelines.catalog import check, load, look, settings
from pyromq.pipelines.common.pipeline_session import opened
from pyromq.pipelines.common.spark_place import SparkPlace
from pyromq.pipelines.jobs.job_files import MOST_SAMPLES, JobEnd, JobFiles, JobOrder, JobProgress
from pyromq.pipelines.outcome import Outcome, Stopped

_PERIOD: Final = 0.5


class RecordedProgress:
    """Writes the progress of a run to its job's directory; after a signal, the next report raises Stopped."""

    def __init__(self, files: JobFiles) -> None:
        self._files = files
        self._samples: list[tuple[float, int]] = []
        self.stopping = False

    def reached(self, done: int, total: int | None, doing: str = "") -> None:
        """Write how far the run is, twice a second at most; raises Stopped after a signal."""
        if self.stopping:
            raise Stopped
        now = time.time()
        if self._samples and now - self._samples[-1][0] < _PERIOD and done != total:
            return
        self._samples = [*self._samples, (now, done)][-MOST_SAMPLES:]
        progress = JobProgress(doing=doing, done=done, total=total, samples=tuple(self._samples))
        self._files.write("progress", progress)

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: the first one ends the run after its current batch, the second at once."""
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = True
        print("stopping after the current batch", file=sys.stderr, flush=True)


def run(files: JobFiles) -> JobEnd:
    """Run the job of a directory; return what came of it."""
    order = files.read("job", JobOrder)
    if order is None:
        raise PyroMQError(f"there is no job in {files.directory}")
    pipeline = load(order.pipeline)
    options = msgspec.convert(order.options, pipeline.Options, strict=False)
    progress = RecordedProgress(files)
    signal.signal(signal.SIGTERM, progress.stop)
    files.write("progress", JobProgress(doing="starting Spark"))
    check(pipeline, options)
    look(pipeline, options, SparkPlace())
    with opened(order.pipeline, conf=settings(pipeline)) as spark:
        signal.signal(signal.SIGTERM, progress.stop)  # Spark has installed its own
        outcome = pipeline.run(spark, options, progress)
    return JobEnd(ended=time.time(), outcome=outcome, stopped=progress.stopping)


def main(directory: str) -> int:
    """Run a job and write its end; return the exit status."""
    files = JobFiles(Path(directory))
    try:
        end = run(files)
    except Stopped:
        end = JobEnd(ended=time.time(), outcome=Outcome(read=0, written=0), stopped=True)
    except KeyboardInterrupt:
        end = JobEnd(ended=time.time(), stopped=True, error="it was stopped at once")
    except (PyroMQError, OSError, msgspec.ValidationError) as error:
        print(error, file=sys.stderr, flush=True)
        end = JobEnd(ended=time.time(), error=str(error))
    files.write("outcome", end)
    return 1 if end.error else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
