"""Tab completion, as the scripts of the shells ask for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
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


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_with_the_script(servers: Servers, tmp_path: Path) -> None:
    script = pyromq_here("completion", "bash").stdout
    command = tmp_path / "pyromq"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pyromq.cli.main "$@"\n')
    command.chmod(0o755)
    lines = (
        script,
        'COMP_WORDS=(pyromq topic describe ref); COMP_CWORD=3; _pyromq_completion pyromq; echo "${COMPREPLY[*]}"',
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "NAMESRV_ADDR": servers.namesrv}
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60, env=environment)
    assert (done.stdout, done.stderr) == ("refunds\n", "")
