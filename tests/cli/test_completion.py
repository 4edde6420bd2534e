"""Tab completion, as the scripts of the shells ask for it."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest

from pyromq.cli.completion import PATIENCE, SHELLS
from tests.cli.conftest import Servers, pyromq_here

Complete = Callable[[str], list[str]]


@pytest.fixture
def complete(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """Ask as bash does, with the cluster in NAMESRV_ADDR."""

    def ask(line: str) -> list[str]:
        words = line.split(" ")
        monkeypatch.setenv("NAMESRV_ADDR", servers.namesrv)
        monkeypatch.setenv("_PYROMQ_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        done = pyromq_here()
        monkeypatch.delenv("_PYROMQ_COMPLETE")
        assert done.stderr == ""
        return done.stdout.split()

    return ask


@pytest.fixture(scope="module", autouse=True)
def _names(servers: Servers) -> None:
    for topic in ("orders", "orders-old", "refunds"):
        assert pyromq_here("topic", "create", topic, "-n", servers.namesrv).returncode == 0
    assert pyromq_here("group", "set", "billing", "retry_max_times=5", "-n", servers.namesrv).returncode == 0


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pyromq to", ["topic", "top"]),
        ("pyromq topic d", ["describe", "delete"]),
        ("pyromq topic describe ord", ["orders", "orders-old"]),
        ("pyromq tail re", ["refunds"]),
        ("pyromq group describe b", ["billing"]),
        ("pyromq dlq show bi", ["billing"]),
        ("pyromq check --group b", ["billing"]),
        ("pyromq cluster status --broker b", ["broker-a"]),
        ("pyromq topic describe --js", ["--json"]),
        ("pyromq --ver", ["--version"]),
        ("pyromq nonsense x", []),
        ("pyromq topic nonsense x", []),
        ("pyromq completion ", []),
    ],
)
def test_verbs_options_and_names_are_completed(complete: Complete, line: str, expected: list[str]) -> None:
    assert sorted(complete(line)) == sorted(expected)


def test_names_of_rocketmqs_own_come_only_when_begun(complete: Complete) -> None:
    assert "TBW102" not in complete("pyromq topic describe ")
    assert complete("pyromq topic describe TBW") == ["TBW102"]
    assert "TOOLS_CONSUMER" not in complete("pyromq group describe ")


def test_the_cluster_is_that_of_the_line(complete: Complete, servers: Servers) -> None:
    assert complete("pyromq topic describe -n 127.0.0.1:1 ord") == []
    assert complete(f"pyromq topic describe -n {servers.namesrv} re") == ["refunds"]


def test_contexts_are_completed(
    complete: Complete, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    added = pyromq_here("context", "add", "production", "-n", servers.namesrv)
    assert added.returncode == 0, added
    assert complete("pyromq context show pro") == ["production"]
    assert complete("pyromq topic list --context pro") == ["production"]
    assert complete("pyromq topic describe --context production re") == ["refunds"]


def test_a_cluster_that_hangs_completes_nothing_soon(monkeypatch: pytest.MonkeyPatch, complete: Complete) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = monotonic()
        assert complete(f"pyromq topic describe -n 127.0.0.1:{silent.getsockname()[1]} ord") == []
        assert monotonic() - started < PATIENCE + 20, "it gives up long before a request would"


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_its_script(shell: str) -> None:
    done = pyromq_here("completion", shell)
    assert done.returncode == 0
    assert f"_PYROMQ_COMPLETE=complete_{shell}" in done.stdout
    assert pyromq_here("completion", "tcsh").returncode == 2


# --- real shells


@pytest.fixture
def shell_environment(servers: Servers, tmp_path: Path) -> dict[str, str]:
    """An environment in which `pyromq` is this one, and NAMESRV_ADDR the cluster."""
    command = tmp_path / "bin" / "pyromq"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pyromq.cli.main "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "NAMESRV_ADDR": servers.namesrv, "HOME": str(tmp_path), "TERM": "dumb"}


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is missing: apt-get install {shell}")


@needs("bash")
def test_bash_completes_with_the_script(shell_environment: dict[str, str]) -> None:
    lines = (
        pyromq_here("completion", "bash").stdout,
        'COMP_WORDS=(pyromq topic describe ref); COMP_CWORD=3; _pyromq_completion pyromq; echo "${COMPREPLY[*]}"',
    )
    assert _output("bash", "\n".join(lines), shell_environment) == "refunds\n"


@needs("fish")
def test_fish_completes_with_the_script(shell_environment: dict[str, str]) -> None:
    asked = 'complete --do-complete "pyromq topic describe ref"; complete --do-complete "pyromq topic resi"'
    names = [line.split("\t")[0] for line in _output("fish", _SOURCED + asked, shell_environment).splitlines()]
    assert names == ["refunds", "resize"]


@needs("zsh")
def test_zsh_completes_what_is_typed(shell_environment: dict[str, str]) -> None:
    """Keys are typed at a real terminal: the completed words are printed by the line itself, with `print` before it."""
    to_start, to_end = "\x01", "\x05"
    typed = (
        "PS1=; autoload -Uz compinit; compinit -u; source <(pyromq completion zsh)\n"
        f"pyromq topic describe ref\t{to_start}print -r -- GOT {to_end}\n"
        f"pyromq topic resi\t{to_start}print -r -- GOT {to_end}\n"
        "exit\n"
    )
    terminal, end_of_shell = pty.openpty()
    with subprocess.Popen(
        ["zsh", "-f", "-i"],
        env=shell_environment,
        start_new_session=True,
        stdin=end_of_shell,
        stdout=end_of_shell,
        stderr=end_of_shell,
    ):
        os.close(end_of_shell)
        os.write(terminal, typed.encode())
        shown = _read_to_end(terminal)
    os.close(terminal)
    got = [line.split() for line in shown.splitlines() if line.startswith("GOT")]
    assert got == [["GOT", "pyromq", "topic", "describe", "refunds"], ["GOT", "pyromq", "topic", "resize"]], shown


_SOURCED = "pyromq completion fish | source; "


def _output(shell: str, text: str, environment: dict[str, str]) -> str:
    done = subprocess.run([shell, "-c", text], capture_output=True, text=True, timeout=60, env=environment)
    assert done.stderr == ""
    return done.stdout


def _read_to_end(terminal: int) -> str:
    shown = b""
    with suppress(OSError):  # the end of a terminal, once the shell has gone
        while piece := os.read(terminal, 4096):
            shown += piece
    return shown.decode().replace("\r", "\n")
