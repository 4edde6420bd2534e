"""The entry point of the command line: whatever happens becomes output, at most one line of error, and an exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.cli import verbs
from pyromq.cli.verbs import VERBS
from tests.cli.conftest import Servers, one_line_error, pyromq, pyromq_here

COMMAND = [sys.executable, "-m", "pyromq.cli.main"]


def shell(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script; in it `$pyromq` is the command."""
    values = {**os.environ, "pyromq": " ".join(COMMAND), **environment}
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, env=values)


def test_the_version_is_printed() -> None:
    assert pyromq("--version").stdout.startswith("pyromq ")


def test_the_help_names_every_verb() -> None:
    lines = pyromq_here("--help").stdout.splitlines()
    assert set(VERBS) <= {line.strip("│ ").split(" ")[0] for line in lines}


@pytest.mark.parametrize("verb", ["tail orders --from earliest", "topic list", "topic describe orders"])
def test_a_reader_that_leaves_is_no_error(servers: Servers, verb: str) -> None:
    assert pyromq_here("send", "orders", "x", "--count", "500", "-n", servers.namesrv).returncode == 0
    done = shell(f"$pyromq {verb} -n {servers.namesrv} | head -1; echo ${{PIPESTATUS[0]}}")
    assert done.stdout.splitlines()[1:] == ["0"], done
    assert done.stderr == ""


def test_sending_goes_on_if_nobody_reads_the_results(servers: Servers) -> None:
    done = shell(f"seq 300 | $pyromq send unread - -n {servers.namesrv} | head -1; echo ${{PIPESTATUS[1]}}")
    assert done.stdout.splitlines()[1:] == ["0"], done
    described = pyromq_here("topic", "describe", "unread", "-n", servers.namesrv, "--json")
    assert json.loads(described.stdout)["messages"] == 300


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
def test_an_output_that_is_full_is_one_line() -> None:
    done = shell("$pyromq --version > /dev/full")
    assert (done.returncode, done.stderr) == (1, "pyromq: No space left on device\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_standard_streams_may_be_closed(servers: Servers, closed: str) -> None:
    assert shell(f"$pyromq send closed x -n {servers.namesrv} {closed}").returncode == 0
    assert shell(f"$pyromq topic list -n {servers.namesrv} {closed}").returncode == 0


def test_text_that_the_terminal_cannot_show_is_escaped(servers: Servers) -> None:
    assert (
        pyromq_here("send", "accents", "caf\N{LATIN SMALL LETTER E WITH ACUTE}", "-n", servers.namesrv).returncode == 0
    )
    tail = f"$pyromq tail accents --from earliest --count 1 -n {servers.namesrv}"
    line = shell(tail, PYTHONIOENCODING="ascii")
    assert line.stdout.endswith("caf\\xe9\n"), line
    as_json = shell(f"{tail} --json", PYTHONIOENCODING="ascii")
    assert json.loads(as_json.stdout)["body"] == "caf\N{LATIN SMALL LETTER E WITH ACUTE}"
    assert shell("$pyromq group describe --help", PYTHONIOENCODING="ascii", LC_ALL="C").returncode == 0


@pytest.mark.parametrize(
    "arguments",
    ["send $'\\xff' x", "send orders x --tag $'\\xff'", "group describe $'\\xff'", "send t x --key $'\\xff'"],
)
def test_an_argument_that_is_not_utf_8_is_wrong_usage(arguments: str) -> None:
    done = shell(f"$pyromq {arguments}", PYTHONUTF8="1")
    assert done.returncode == 2, done
    assert "b'\\xff' is not UTF-8" in done.stderr


def test_an_unexpected_exception_is_one_line_unless_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise ValueError("boom\nboom")

    monkeypatch.setattr(verbs, "app", fail)
    line = one_line_error(pyromq_here("topic", "list"))
    assert line == "pyromq: unexpected ValueError: boom boom; `pyromq --debug ...` shows where"
    with pytest.raises(ValueError, match="boom"):
        pyromq_here("--debug", "topic", "list")


def test_a_file_that_is_missing_is_one_line() -> None:
    line = one_line_error(pyromq_here("send", "t", "--file", "/no/such/file"))
    assert line == "pyromq: /no/such/file: No such file or directory"


def test_a_misspelt_verb_names_the_nearest() -> None:
    done = pyromq_here("tial", "orders")
    assert done.returncode == 2
    assert "there is no verb 'tial'; did you mean tail?" in done.stderr


def test_a_name_that_is_not_there_needs_no_code(servers: Servers) -> None:
    line = one_line_error(pyromq_here("group", "describe", "nobody", "-n", servers.namesrv))
    assert line == "pyromq: no broker knows the group 'nobody'"
