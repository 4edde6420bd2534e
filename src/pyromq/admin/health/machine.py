"""This machine: open files, and the disk, file system and scheduler below a store directory."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pyromq.admin.health.examination import DoctorStep, StepStatus, graded

if sys.platform != "win32":
    import resource

DISK_WARNING: Final = 85
DISK_FAILED: Final = 95
"""Percent of a disk in use."""
FEW_FILES: Final = 10_000
TOO_FEW_FILES: Final = 1_024

_REMOTE: Final = re.compile(r"nfs|cifs|smb|fuse|9p|afs|ceph|gluster|lustre")
_SLOW_SCHEDULERS: Final = ("bfq", "cfq")


def machine_steps(directories: Iterable[Path], system: Path = Path("/")) -> Iterator[DoctorStep]:
    """Yield what is seen on this machine; `system` is where proc and sys are."""
    yield open_files_step()
    known = [directory for directory in directories if directory.exists()]
    if not known:
        yield DoctorStep("disk", StepStatus.SKIPPED, "no store directory on this machine; --data DIR names one")
    for directory in known:
        yield _disk(directory)
        yield _file_system(directory, system)
        yield _scheduler(directory, system)


def is_local(host: str) -> bool:
    """Return True if an address is one of this machine's: only then can a socket be bound to it."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
        with socket.socket(found[0][0], socket.SOCK_STREAM) as trial:
            trial.bind((found[0][4][0], 0))
    except (OSError, UnicodeError, IndexError):
        return False
    return True


def open_files_step() -> DoctorStep:
    """Return how many files a server started here could open; servers raise the soft limit to the hard one."""
    if sys.platform == "win32":
        return DoctorStep("open files", StepStatus.SKIPPED, "Windows has no such limit")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return DoctorStep("open files", StepStatus.OK, f"at most {soft:,} now, servers take as many as they need")
    return graded(
        "open files",
        -hard,
        -FEW_FILES,
        -TOO_FEW_FILES,
        f"a server started here can open {hard:,} (now {soft:,})",
        "raise the limit: LimitNOFILE= in a systemd unit, `ulimit -n`, or nofile in /etc/security/limits.conf",
    )


def _disk(directory: Path) -> DoctorStep:
    try:
        usage = shutil.disk_usage(directory)
    except OSError as error:
        return DoctorStep("disk", StepStatus.FAILED, f"{directory}: {error.strerror}", "is the disk there?")
    percent = 100 * usage.used / max(usage.used + usage.free, 1)
    seen = f"{directory}: {percent:.0f}% used, {usage.free / (1 << 30):,.1f} GiB free"
    return graded("disk", percent, DISK_WARNING, DISK_FAILED, seen, disk_advice())


def disk_advice() -> str:
    """Return what to do about a full disk."""
    return "delete what is not needed, enlarge it, or keep messages for a shorter time (fileReservedTime)"


def _file_system(directory: Path, system: Path) -> DoctorStep:
    kind = _mounted_as(directory.resolve(), system)
    if kind is None:
        return DoctorStep("file system", StepStatus.SKIPPED, "only Linux says which one it is")
    seen = f"{directory} is on {kind}"
    if kind in ("tmpfs", "ramfs"):
        return DoctorStep("file system", StepStatus.WARNING, seen, "a restart of the machine loses all messages")
    if _REMOTE.match(kind):
        advice = "a flush may lie, and locks may not hold: use a local disk, and a slave for safety"
        return DoctorStep("file system", StepStatus.WARNING, seen, advice)
    return DoctorStep("file system", StepStatus.OK, seen)


def _mounted_as(path: Path, system: Path) -> str | None:
    """Return the kind of the file system with the longest mount point above a path."""
    best, kind = -1, None
    try:
        lines = (system / "proc/mounts").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if len(fields) < 3:
            continue
        mount = Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), fields[1]))
        if (path == mount or mount in path.parents) and len(mount.parts) >= best:
            best, kind = len(mount.parts), fields[2]
    return kind


def _scheduler(directory: Path, system: Path) -> DoctorStep:
    name = "disk scheduler"
    device = os.stat(directory).st_dev
    block = system / f"sys/dev/block/{os.major(device)}:{os.minor(device)}"
    for queue in (block / "queue", block.resolve().parent / "queue"):  # a partition has that of its disk
        try:
            text = (queue / "scheduler").read_text().strip()
            spins = (queue / "rotational").read_text().strip() == "1"
        except OSError:
            continue
        chosen = re.search(r"\[(.+?)\]", text)
        used = chosen[1] if chosen else text
        seen = f"{used} on {'a spinning disk' if spins else 'a disk without moving parts'}"
        if used in _SLOW_SCHEDULERS and not spins:
            return DoctorStep(name, StepStatus.WARNING, seen, f"echo mq-deadline > {queue / 'scheduler'}")
        return DoctorStep(name, StepStatus.OK, seen)
    return DoctorStep(name, StepStatus.SKIPPED, f"{directory} is not on a disk whose scheduler can be seen")
