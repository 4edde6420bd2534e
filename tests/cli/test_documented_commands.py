"""Every `pyromq` command on a page exists, with its options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperGroup

from tests.cli.test_help import PAGES

ROOT = Path(__file__).parent.parent.parent
FILES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])
_COMMAND = re.compile(r"(?:^\$?\s*|`)pyromq ([a-z][^`\n]*)", re.MULTILINE)


def commands(text: str) -> Iterator[str]:
    """Yield what stands behind `pyromq`; in running text a command may continue on the next line."""
    joined = re.sub(r"(`pyromq [^`\n]*)\n([^`\n]*`)", r"\1 \2", text)
    for found in _COMMAND.findall(joined):
        yield found.split("#")[0].strip()


def verb_of(command: str) -> str:
    """Return the longest page that a command begins with."""
    words = [word.strip(",") for word in command.split()]
    for length in range(len(words), 0, -1):
        if (name := " ".join(words[:length])) in PAGES:
            return name
    return ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.name))
def test_the_commands_of_a_page_exist(path: Path) -> None:
    wrong = []
    for command in commands(path.read_text()):
        verb = verb_of(command)
        known = {name for parameter in PAGES[verb].params for name in (*parameter.opts, *parameter.secondary_opts)}
        options = re.findall(r"(?<![\w-])--?[a-z][\w-]*", command)
        if not verb or (not isinstance(PAGES[verb], TyperGroup) and set(options) - known - {"--help"}):
            wrong.append(command)
        if listed := re.match(r"(\w+) ([a-z-]+(?:, [a-z-]+)+)", command):  # `pyromq dlq list, show`
            wrong += [name for word in listed[2].split(", ") if (name := f"{listed[1]} {word}") not in PAGES]
    assert wrong == []
