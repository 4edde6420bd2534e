"""The entry point of the command line."""

from __future__ import annotations

from pyromq.cli.main import VERBS
from tests.cli.conftest import pyromq, pyromq_here


def test_the_version_is_printed() -> None:
    assert pyromq("--version").stdout.startswith("pyromq ")


def test_the_help_names_every_verb() -> None:
    lines = pyromq_here("--help").stdout.splitlines()
    assert set(VERBS) <= {line.strip("│ ").split(" ")[0] for line in lines}
