"""`pyromq context`: named clusters."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pyromq.admin import Contexts
from tests.cli.conftest import one_line_error, pyromq_here


@pytest.fixture(autouse=True)
def _config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("COLUMNS", raising=False)


def context(*arguments: str, text: str = "") -> CompletedProcess[str]:
    return pyromq_here("context", *arguments, text=text)


def test_contexts_are_added_listed_shown_chosen_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert context("list").stdout.startswith("there are no contexts;")
    monkeypatch.setenv("OPS_SECRET", "hunter2")
    account = "--access-key", "ops", "--secret-env", "OPS_SECRET"
    done = context("add", "prod", "-n", "10.0.0.1:9876", *account, "--colour", "red", "--confirm", "--use")
    assert done.stdout == "context prod added, and chosen\n"
    done = context("add", "test", "-n", "127.0.0.1:9876")
    assert done.stdout == "context test added; `pyromq context use test` chooses it\n"
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in context("list").stdout.splitlines()[3:-1]]
    assert rows == [["*", "prod", "10.0.0.1:9876", "ops", "asks"], ["", "test", "127.0.0.1:9876", "-", "-"]]
    shown = json.loads(context("show", "--json").stdout)
    assert shown == {
        "context": "prod",
        "current": True,
        "namesrv": "10.0.0.1:9876",
        "access_key": "ops",
        "has_secret": True,
        "tls": None,
        "colour": "red",
        "confirm": True,
    }
    assert context("use", "test").stdout == "context test is chosen: 127.0.0.1:9876\n"
    listed = [json.loads(line) for line in context("list", "--json").stdout.splitlines()]
    assert [(one["context"], one["current"]) for one in listed] == [("prod", False), ("test", True)]
    assert context("remove", "prod", "--dry-run").stdout == "context prod would be removed: 10.0.0.1:9876\n"
    assert one_line_error_after_question(context("remove", "prod", text="n\n"))
    assert context("remove", "prod", "--yes").stdout == "context prod removed\n"
    assert list(Contexts().all) == ["test"]
    assert context("use", "--none").stdout == "no context is chosen\n"
    assert "no context is chosen" in one_line_error(context("show"))


def one_line_error_after_question(done: CompletedProcess[str]) -> bool:
    return done.returncode == 1 and "nothing was changed" in done.stderr


@pytest.mark.parametrize("from_stdin", [True, False])
def test_the_secret_comes_from_a_file_or_standard_input_and_is_never_shown(tmp_path: Path, from_stdin: bool) -> None:
    (tmp_path / "secret").write_text("hunter2\n")
    file = "-" if from_stdin else str(tmp_path / "secret")
    added = context(
        "add", "prod", "-n", "h:1", "--access-key", "ops", "--secret-file", file, text="hunter2\n" if from_stdin else ""
    )
    assert added.returncode == 0, added.stderr
    assert Contexts().get("prod").secret_key == "hunter2"
    for done in (added, context("list"), context("show", "prod"), context("list", "--json")):
        assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["add", "x"], "Missing option"),
        (["add", "x", "-n", "h:1", "--access-key", "ops"], "there is no terminal to ask"),
        (["add", "x", "-n", "h:1", "--secret-env", "HOME"], "belong to --access-key"),
        (["use"], "give the name of a context, or --none"),
        (["use", "x", "--none"], "give the name of a context, or --none"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], problem: str) -> None:
    done = context(*arguments)
    assert done.returncode == 2
    assert problem in done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["add", "x", "-n", "nowhere"], "not a name server's address: 'nowhere'"),
        (["add", "x", "-n", "h:1", "--access-key", "ops", "--secret-env", "UNSET"], "UNSET has no secret key"),
        (["add", "x", "-n", "h:1", "--access-key", "ops", "--secret-file", "/none"], "/none: No such file"),
        (["use", "x"], "there is no context 'x'"),
        (["remove", "x", "--yes"], "there is no context 'x'"),
    ],
)
def test_a_failure_is_one_line(arguments: list[str], problem: str) -> None:
    assert problem in one_line_error(context(*arguments))
    assert list(Contexts().all) == []
