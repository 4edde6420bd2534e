"""Every help page: each family, each verb and each option explains itself."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from pyromq.cli.verbs import app
from tests.cli.conftest import pyromq_here

WIDTH = 100


def pages() -> Iterator[tuple[str, Any]]:
    """Yield the words of every page and its command."""
    yield from _below((), typer.main.get_command(app))


def _below(words: tuple[str, ...], command: Any) -> Iterator[tuple[str, Any]]:
    yield " ".join(words), command
    if isinstance(command, TyperGroup):
        context = typer.Context(command, info_name="pyromq")
        for name in command.list_commands(context):
            yield from _below((*words, name), command.get_command(context, name))


PAGES = dict(pages())


def page_of(words: str) -> list[str]:
    """Return the lines of a page, without frames and blanks at the ends."""
    done = pyromq_here(*words.split(), "--help")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [line.strip("│╭╮╰╯─ ") for line in done.stdout.splitlines() if len(line) <= WIDTH or pytest.fail(line)]


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)


def test_there_are_pages_of_all_families() -> None:
    assert {"", "up", "send", "store verify", "group reset", "pipeline run archive", "config check"} <= PAGES.keys()
    assert os.environ["COLUMNS"] == "100"


@pytest.mark.parametrize("words", PAGES, ids=lambda words: words or "pyromq")
def test_a_page_says_how_to_use_it_and_what_it_does(words: str) -> None:
    lines = page_of(words)
    usage, summary = (line for line in lines[:4] if line)
    assert usage.startswith(f"Usage: pyromq {words}".rstrip())
    assert re.fullmatch(r"[A-Z].*", summary), summary
    text = " ".join(PAGES[words].help.split("\n\n")[0].split())
    assert text.endswith("."), "the first paragraph is a sentence"
    assert len(text) <= 80, "it is one line in the list of verbs"
    assert ".." not in text.replace("...", "")


@pytest.mark.parametrize("words", PAGES, ids=lambda words: words or "pyromq")
def test_every_option_and_argument_is_explained_in_a_sentence(words: str) -> None:
    unexplained = [
        parameter.name
        for parameter in PAGES[words].params
        if not re.fullmatch(r"[A-Z\"`].*[.]", (parameter.help or "").replace("\\[", "["), re.DOTALL)
        and parameter.name != "help"
    ]
    assert unexplained == []


@pytest.mark.parametrize("words", PAGES, ids=lambda words: words or "pyromq")
def test_a_page_names_everything_once(words: str) -> None:
    command, lines = PAGES[words], page_of(words)
    names = [name for parameter in command.params for name in parameter.opts if name.startswith("--")]
    if isinstance(command, TyperGroup):
        names += command.list_commands(typer.Context(command))
    first_words = [line.removeprefix("*").split()[0] for line in lines if line.removeprefix("*").strip()]
    assert [name for name in names if first_words.count(name) != 1] == []
    assert not [line for line in lines if "[[" in line or "\\" in line or "TODO" in line]
    assert all(line.isascii() or words == "" for line in lines if not set(line) & set("│╭╮╰╯─")), (
        "any terminal shows it"
    )


@pytest.mark.parametrize("words", [words for words, command in PAGES.items() if isinstance(command, TyperGroup)])
def test_a_family_without_a_verb_shows_its_page(words: str) -> None:
    done = pyromq_here(*words.split())
    shown = done.stdout + done.stderr
    assert "Usage: pyromq" in shown
    assert "Commands" in shown
