"""docs/mqadmin.md: generated, with a row for each command of mqadmin, and commands of ours that exist."""

from __future__ import annotations

import re

import pytest
from interop.mqadmin_table import OURS, ROWS, WITHOUT, page

from tests.cli.test_documented_commands import ROOT, verb_of
from tests.cli.test_help import PAGES

COMMANDS = sorted({command for commands in OURS.values() for command in commands.split("; ")})


def test_the_page_is_that_of_the_table() -> None:
    text = (ROOT / "docs" / "mqadmin.md").read_text()
    assert text == page(), "run `python -m interop.mqadmin_table > docs/mqadmin.md`"


def test_every_command_of_mqadmin_has_one_row() -> None:
    names = [row.command for row in ROWS]
    assert len(names) == len(set(names))
    assert sorted([*OURS, *WITHOUT]) == sorted(names)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_in_the_table_exists_with_its_options(command: str) -> None:
    verb = verb_of(command)
    assert verb
    known = {name for parameter in PAGES[verb].params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", command)) <= known


def test_every_command_that_operators_use_is_in_the_table_or_goes_beyond_mqadmin() -> None:
    families = ("topic ", "group ", "cluster ", "message ")
    ours = {words for words in PAGES if words.startswith(families) and not hasattr(PAGES[words], "commands")}
    named = {verb_of(command) for command in COMMANDS}
    assert ours - named == {
        "message pending",  # timers
        "message cancel",
        "cluster promote",  # failover
        "cluster kv list",
        "cluster kv get",
    }
