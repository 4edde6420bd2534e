"""Compiles the load generator with the machine's C compiler, into a cache below the temporary directory."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from interop.toolkit import Missing

_HERE = Path(__file__).parent
_SOURCES = [_HERE / "load.c", _HERE / "answers.c"]
_FLAGS = ["-O2", "-std=gnu11", "-Wall", "-Wextra"]


def build() -> Path:
    """Return the program, compiled from these sources; raise Missing."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise Missing("no C compiler: the load generator is compiled with `cc` (Debian: gcc), or with $CC")
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(_HERE.glob("*.[ch]")))).hexdigest()[:12]
    cache = Path(tempfile.gettempdir()) / f"pyromq-load-{os.getuid()}"
    cache.mkdir(mode=0o700, exist_ok=True)
    if cache.stat().st_uid != os.getuid():
        raise Missing(f"{cache} belongs to another user")
    program = cache / f"load-{digest}"
    if not program.exists():
        part = cache / f"{program.name}.{os.getpid()}"
        done = subprocess.run([compiler, *_FLAGS, "-o", part, *_SOURCES], capture_output=True, text=True)
        if done.returncode:
            raise Missing(f"the load generator was not compiled: {done.stderr}")
        part.rename(program)
    return program
