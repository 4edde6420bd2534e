"""Jobs: pipelines in processes of their own, and the directory that remembers them."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from pyromq.errors import ClientError, ConfigError
from pyromq.pipelines.catalog import check, load
from pyromq.pipelines.jobs.job_files import JobEnd, JobFiles, JobOrder, JobProcess, JobProgress
from pyromq.protocol.acl import Credentials

MOST_RUNNING: Final = 2
"""Each has a JVM of its own."""
_KEPT: Final = 50
_STARTING: Final = 15.0
"""Seconds that a job may take to say that its process has started."""


def why_unavailable() -> str:
    """Return why jobs cannot run here; empty if they can."""
    if find_spec("pyspark") is None:
        return "Spark is not installed here: pip install 'pyromq[spark]'"
    return ""


class JobView(Struct, frozen=True, kw_only=True):
    """A job as it is now."""

    id: str
    pipeline: str
    options: Mapping[str, Any]
    user: str
    started: float
    state: str
    """running, done, stopped, failed or lost (its process ended without a word)."""
    progress: JobProgress
    end: JobEnd | None
    results: tuple[str, ...]
    """The names of the files that it wrote to its own directory."""

    @property
    def is_running(self) -> bool:
        """True while its process works."""
        return self.state == "running"


class PipelineJobs:
    """Starts and watches jobs. Their processes go on if this one ends, and are found again by the next."""

    def __init__(self, directory: Path, namesrv: str, credentials: Credentials | None = None) -> None:
        self._directory = directory
        self._namesrv = namesrv
        self._credentials = credentials
        self._lock = threading.Lock()
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, pipeline: str, options: Mapping[str, Any], user: str = "") -> JobView:
        """Begin a job; raises ConfigError for wrong options, ClientError if Spark is missing or too many jobs run."""
        if why := why_unavailable():
            raise ClientError(why)
        with self._lock:
            if sum(job.is_running for job in self.list()) >= MOST_RUNNING:
                raise ClientError(f"{MOST_RUNNING} jobs are running: wait for one to end, or stop one")
            job_id = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"
            files = JobFiles(self._directory / job_id)
            files.results.mkdir(parents=True)
            try:
                checked = self._checked(pipeline, options, files)
                order = JobOrder(id=job_id, pipeline=pipeline, options=checked, user=user, started=time.time())
                files.write("job", order)
                self._spawn(files, job_id)
            except BaseException:
                shutil.rmtree(files.directory, ignore_errors=True)
                raise
        self._forget_old()
        return self.get(job_id)

    def list(self) -> list[JobView]:
        """Return all jobs, the newest first."""
        if not self._directory.is_dir():
            return []
        names = sorted((path.name for path in self._directory.iterdir() if path.is_dir()), reverse=True)
        return [view for name in names if (view := self._view(JobFiles(self._directory / name))) is not None]

    def get(self, job_id: str) -> JobView:
        """Return one job; raises ClientError if there is none."""
        view = self._view(self.files(job_id))
        if view is None:
            raise ClientError(f"there is no job {job_id!r}")
        return view

    def files(self, job_id: str) -> JobFiles:
        """Return the files of a job; raises ClientError if it cannot be one of ours."""
        if not job_id or job_id.startswith(".") or Path(job_id).name != job_id:
            raise ClientError(f"there is no job {job_id[:64]!r}")
        return JobFiles(self._directory / job_id)

    def stop(self, job_id: str) -> None:
        """Let a job end after its current batch; the second time it ends at once."""
        job, files = self.get(job_id), self.files(job_id)
        process = files.read("process", JobProcess)
        if not job.is_running or process is None:
            raise ClientError(f"the job {job_id} does not run")
        asked = files.directory / "stopping"
        number = signal.SIGKILL if asked.exists() else signal.SIGTERM
        asked.touch()
        if number == signal.SIGKILL:
            os.killpg(process.pid, number)  # it leads a session of its own, with Spark's Java
        else:
            os.kill(process.pid, number)

    def remove(self, job_id: str) -> None:
        """Forget a job that has ended, with the files in its directory."""
        if self.get(job_id).is_running:
            raise ClientError(f"the job {job_id} is running: stop it first")
        shutil.rmtree(self.files(job_id).directory)

    def _checked(self, pipeline: str, options: Mapping[str, Any], files: JobFiles) -> dict[str, Any]:
        """Return the options as the pipeline takes them: this cluster, and results in the job's directory."""
        module = load(pipeline)
        known = {field.name: field for field in msgspec.structs.fields(module.Options)}
        values = {name: value for name, value in options.items() if value not in ("", None)}
        if unknown := sorted(values.keys() - known.keys()):
            raise ConfigError(f"the pipeline {pipeline} has no option {unknown[0]!r}")
        if "namesrv" in known and not values.get("store"):
            values["namesrv"] = self._namesrv
        if "out" in known:
            values["out"] = str(files.results / Path(str(known["out"].default)).name)
        try:
            checked = msgspec.convert(values, module.Options, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{pipeline}: {error}") from None
        check(module, checked)
        return values

    def _spawn(self, files: JobFiles, job_id: str) -> None:
        environment = dict(os.environ)
        if self._credentials is not None:
            environment["PYROMQ_ACCESS_KEY"] = self._credentials.access_key
            environment["PYROMQ_SECRET_KEY"] = self._credentials.secret_key
        with files.log.open("wb") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "pyromq.pipelines.jobs.job_process", str(files.directory)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=files.directory,
                start_new_session=True,
            )
        self._children[job_id] = child
        files.write("process", JobProcess(pid=child.pid, ticks=_ticks(child.pid) or 0))

    def _view(self, files: JobFiles) -> JobView | None:
        order = files.read("job", JobOrder)
        if order is None:
            return None
        end = files.read("outcome", JobEnd)
        names = sorted(path.name for path in files.results.iterdir()) if files.results.is_dir() else ()
        return JobView(
            id=order.id,
            pipeline=order.pipeline,
            options=order.options,
            user=order.user,
            started=order.started,
            state=self._state(order, files, end),
            progress=files.read("progress", JobProgress) or JobProgress(),
            end=end,
            results=tuple(names),
        )

    def _state(self, order: JobOrder, files: JobFiles, end: JobEnd | None) -> str:
        if end is not None:
            return "failed" if end.error and not end.stopped else "stopped" if end.stopped else "done"
        child = self._children.get(order.id)
        if child is not None:
            child.poll()  # else it stays behind as a zombie
        process = files.read("process", JobProcess)
        if process is None:
            return "running" if time.time() - order.started < _STARTING else "lost"
        is_alive = child.returncode is None if child is not None else _ticks(process.pid) == process.ticks
        if is_alive:
            return "running"
        return "stopped" if (files.directory / "stopping").exists() else "lost"

    def _forget_old(self) -> None:
        for job in self.list()[_KEPT:]:
            if not job.is_running:
                shutil.rmtree(self.files(job.id).directory, ignore_errors=True)


def _ticks(pid: int) -> int | None:
    """Return when a process started, in the kernel's ticks; None if there is none, 0 where the system has no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None if Path("/proc/self").exists() else _alive(pid)
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


def _alive(pid: int) -> int | None:
    try:
        os.kill(pid, 0)
    except OSError:
        return None
    return 0
