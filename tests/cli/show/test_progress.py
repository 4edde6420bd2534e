"""Progress goes to the terminal, results go where standard output goes."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from tests.cli.conftest import Servers

PROGRAM = """
import sys
from pyromq.cli.show.progress import progress
with progress(shown={shown}) as bar:
    bar.add_task("working", total=None)
    print("a result")
"""


def run_at_a_terminal(*command: str, text: str = "") -> tuple[str, str]:
    """Run a command with stderr on a terminal and stdout in a pipe; return both texts."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, *command], input=text, stdout=subprocess.PIPE, stderr=slave, text=True, env=environment
    )
    os.set_blocking(master, False)
    try:
        shown = os.read(master, 100_000).decode()
    except BlockingIOError:
        shown = ""
    os.close(slave)
    os.close(master)
    assert done.returncode == 0, shown
    return done.stdout, shown


@pytest.mark.parametrize("shown", [True, False])
def test_results_stay_out_of_the_terminal(shown: bool) -> None:
    output, terminal = run_at_a_terminal("-c", PROGRAM.format(shown=shown))
    assert output == "a result\n"
    assert ("working" in terminal) is shown
    assert "a result" not in terminal


def test_send_writes_its_results_to_a_pipe(servers: Servers) -> None:
    command = ("-m", "pyromq.cli.main", "send", "piped", "-", "-n", servers.namesrv)
    output, _ = run_at_a_terminal(*command, text="one\ntwo\n")
    assert [line.split()[0] for line in output.splitlines()] == ["SEND_OK", "SEND_OK"]
