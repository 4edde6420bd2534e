"""What the doctor sees of a machine, with made-up files of /proc and /sys."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from pyromq.admin import DoctorStep, StepStatus
from pyromq.admin.health.machine import is_local, machine_steps, open_files_step


def named(steps: Iterable[DoctorStep], name: str) -> DoctorStep:
    return next(step for step in steps if step.name == name)


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A machine with one disk, on which `data` lies."""
    root = tmp_path / "system"
    (root / "proc").mkdir(parents=True)
    data = tmp_path / "a b"
    data.mkdir()
    where = str(data).replace(" ", "\\040")
    (root / "proc/mounts").write_text(f"/dev/sda / ext4 rw 0 0\nnone {where} xfs rw 0 0\nbroken\n")
    device = os.stat(data).st_dev
    disk = root / "sys/devices/sda"
    partition = disk / "sda1"
    partition.mkdir(parents=True)
    (disk / "queue").mkdir()
    (disk / "queue/scheduler").write_text("mq-deadline kyber [bfq] none\n")
    (disk / "queue/rotational").write_text("0\n")
    (root / "sys/dev/block").mkdir(parents=True)
    (root / f"sys/dev/block/{os.major(device)}:{os.minor(device)}").symlink_to(partition)
    return root


def test_disk_file_system_and_scheduler_are_seen(system: Path, tmp_path: Path) -> None:
    data = tmp_path / "a b"
    steps = list(machine_steps([data], system))
    assert [step.name for step in steps] == ["open files", "disk", "file system", "disk scheduler"]
    assert "GiB free" in named(steps, "disk").seen
    assert (named(steps, "file system").status, named(steps, "file system").seen) == (
        StepStatus.OK,
        f"{data} is on xfs",
    )
    scheduler = named(steps, "disk scheduler")
    assert (scheduler.status, scheduler.seen) == (StepStatus.WARNING, "bfq on a disk without moving parts")
    assert scheduler.advice.startswith("echo mq-deadline > ")


@pytest.mark.parametrize(
    ("kind", "text"), [("tmpfs", "loses all messages"), ("nfs4", "local disk"), ("fuse.sshfs", "local disk")]
)
def test_a_file_system_that_loses_messages_is_a_warning(system: Path, tmp_path: Path, kind: str, text: str) -> None:
    (system / "proc/mounts").write_text(f"x / {kind} rw 0 0\n")
    step = named(machine_steps([tmp_path], system), "file system")
    assert step.status is StepStatus.WARNING
    assert text in step.advice


def test_what_cannot_be_seen_is_skipped(tmp_path: Path) -> None:
    steps = list(machine_steps([tmp_path], tmp_path / "nothing"))
    assert named(steps, "file system").status is StepStatus.SKIPPED
    assert named(steps, "disk scheduler").status is StepStatus.SKIPPED
    steps = list(machine_steps([tmp_path / "none"], tmp_path))
    assert named(steps, "disk").status is StepStatus.SKIPPED


@pytest.mark.parametrize(("used", "status"), [(50, StepStatus.OK), (90, StepStatus.WARNING), (96, StepStatus.FAILED)])
def test_a_full_disk_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: int, status: StepStatus) -> None:
    usage = shutil._ntuple_diskusage(100, used, 100 - used)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    step = named(machine_steps([tmp_path], tmp_path), "disk")
    assert (step.status, bool(step.advice)) == (status, status is not StepStatus.OK)


@pytest.mark.parametrize(
    ("hard", "status"),
    [(1_000, StepStatus.FAILED), (4_096, StepStatus.WARNING), (65_536, StepStatus.OK), (-1, StepStatus.OK)],
)
def test_few_open_files_are_reported(monkeypatch: pytest.MonkeyPatch, hard: int, status: StepStatus) -> None:
    limits: Callable[[int], tuple[int, int]] = lambda _: (512, hard)  # noqa: E731
    monkeypatch.setattr(resource, "getrlimit", limits)
    assert open_files_step().status is status


@pytest.mark.parametrize(("host", "expected"), [("127.0.0.1", True), ("192.0.2.1", False), ("no such host", False)])
def test_only_own_addresses_are_local(host: str, expected: bool) -> None:
    assert is_local(host) is expected
