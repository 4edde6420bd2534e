"""Servers started as users start them, in their own process."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

import pytest

from pyromq.cli.main import main

ROOT = Path(__file__).parent.parent.parent
FREE_PORTS = ("--namesrv-port", "0", "--port", "0", "--console-port", "0")


class Servers(NamedTuple):
    """A running `pyromq up`."""

    process: subprocess.Popen[str]
    namesrv: str
    broker: str
    console: str
    data: Path


def pyromq(*arguments: str, text: str | None = None, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    environment = {key: value for key, value in os.environ.items() if key != "NAMESRV_ADDR"}
    return subprocess.run(
        [sys.executable, "-m", "pyromq.cli.main", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
    )


def pyromq_here(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command in this process: starting a process for each of many would take long."""
    out, err = io.StringIO(), io.StringIO()
    given, sys.argv = sys.argv, ["pyromq", *arguments]
    stdin, code = sys.stdin, 0
    try:
        with TemporaryFile("w+") as sys.stdin, redirect_stdout(out), redirect_stderr(err):
            sys.stdin.write(text)
            sys.stdin.seek(0)
            main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    finally:
        sys.argv, sys.stdin = given, stdin
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def start_up(data: Path, *extra: str) -> Servers:
    """Start `pyromq up` and wait for its ready line."""
    command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(data), *FREE_PORTS, *extra]
    data.mkdir(parents=True, exist_ok=True)
    with (data / "stderr.log").open("a") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.fullmatch(r"PyroMQ ready: namesrv (\S+) broker (\S+) console (\S+)\n", line)
    assert found, (line, (data / "stderr.log").read_text())
    return Servers(process, found[1], found[2], found[3], data)


def stop(servers: Servers) -> int:
    """Stop as Ctrl-C or a service manager would; return the exit code."""
    servers.process.terminate()
    return servers.process.wait(30)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """One `pyromq up` for all tests of a module."""
    running = start_up(tmp_path_factory.mktemp("up"))
    yield running
    if running.process.poll() is None:
        assert stop(running) == 0


def one_line_error(done: subprocess.CompletedProcess[str]) -> str:
    """Check that an error is one line, without a traceback, with exit code 1; return the line."""
    assert done.returncode == 1, done
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]
