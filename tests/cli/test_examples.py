"""Every help page has examples, and they are commands that exist."""

from __future__ import annotations

import shlex

import pytest
import typer

from pyromq.cli.examples import EXAMPLES, examples_of
from tests.cli.test_documented_commands import verb_of
from tests.cli.test_help import PAGES, page_of

LINES = [(words, line) for words, lines in EXAMPLES.items() for line in lines]


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("words", PAGES, ids=lambda words: words or "pyromq")
def test_a_page_has_examples(words: str) -> None:
    lines = examples_of(words)
    assert lines, f"add a line for {words!r} to EXAMPLES in cli/examples.py"
    shown = " ".join(page_of(words))
    assert all(" ".join(line.split()) in " ".join(shown.split()) for line in lines), shown


def test_there_are_no_examples_of_commands_that_are_gone() -> None:
    assert [words for words in EXAMPLES if words not in PAGES] == []


@pytest.mark.parametrize(("words", "line"), LINES, ids=lambda value: value or "pyromq")
def test_an_example_can_be_parsed(words: str, line: str) -> None:
    command = line.removeprefix('eval "$(').removesuffix(')"').partition(" > ~")[0]
    name, *arguments = shlex.split(command)
    assert name == "pyromq"
    verb = verb_of(" ".join(arguments))
    assert words in ("", verb)
    rest = arguments[len(verb.split()) :]
    if "--help" in rest:
        return
    context = PAGES[verb].make_context(verb, rest, parent=typer.Context(PAGES[""]), resilient_parsing=False)
    assert context.params is not None
