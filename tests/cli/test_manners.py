"""What every command has in common, by rule: --json where something is shown, --dry-run and --yes where it changes."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.table import Table
from typer.core import TyperGroup

from pyromq.cli.show.console import OutputConsole
from tests.cli.conftest import Servers, pyromq_here, start_up, stop
from tests.cli.test_help import PAGES

COMMANDS = [words for words, command in PAGES.items() if not isinstance(command, TyperGroup)]

SHOWS = re.compile(
    r"(.* )?(list|describe|show|status|find|trace|pending|inspect|verify|get|advise|top|check|doctor|tail|clients)"
)
"""Verbs that list or show something."""
CHANGES = re.compile(
    r"(topic|group|cluster|dlq|transaction|message|acl|store|context)( kv)? "
    r"(create|add|set|delete|reset|clone|resize|promote|config|pause-writes|resume-writes|clean|resend|resume|cancel"
    r"|consume|repair|remove)"
)
"""Verbs that change what is there: a cluster, a store, or the user's contexts."""
NEITHER = re.compile(
    r"up|namesrv|broker|console|send|completion|docs|run|bench .*|pipeline .*|store (serve|backup)|config check"
    r"|debug bundle|dlq export|context (add|use)"
)
"""Servers, load, files that are made new: the rest of the commands, so that no new one is forgotten."""


def options_of(words: str) -> set[str]:
    return {name for parameter in PAGES[words].params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_is_of_one_kind(words: str) -> None:
    kinds = [kind for kind in (SHOWS, CHANGES, NEITHER) if kind.fullmatch(words)]
    assert kinds, "say above whether it shows or changes something"


@pytest.mark.parametrize("words", [words for words in COMMANDS if SHOWS.fullmatch(words)])
def test_what_shows_something_has_json(words: str) -> None:
    assert "--json" in options_of(words)


@pytest.mark.parametrize(
    "words", [words for words in COMMANDS if CHANGES.fullmatch(words) and not NEITHER.fullmatch(words)]
)
def test_what_changes_something_has_dry_run_and_yes(words: str) -> None:
    assert {"--dry-run", "--yes"} <= options_of(words)


@pytest.mark.parametrize("words", COMMANDS)
def test_options_with_the_same_name_mean_the_same(words: str) -> None:
    known = {
        "--json": ("JSON",),
        "--dry-run": ("Show what would be", "Only show", "Check"),
        "--yes": ("Do not ask for confirmation.",),
        "--namesrv": ("ame server", "Register there"),
    }
    for parameter in PAGES[words].params:
        for name in parameter.opts:
            if name in known:
                assert any(text in parameter.help for text in known[name]), (words, name, parameter.help)


# --- empty results


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """A cluster in which nothing has happened."""
    running = start_up(tmp_path_factory.mktemp("empty"))
    yield running
    assert stop(running) == 0


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("topic list", "there are no topics"),
        ("group list", "there are no groups"),
        ("dlq list", "no group has dead letters"),
        ("transaction list", "every transaction has ended"),
        ("message pending", "no message waits for its delivery time"),
        ("context list", "there are no contexts"),
        ("cluster kv list", "has no values"),
        ("top --once", "there are no groups"),
        ("top --once --view topics", "there are no topics"),
    ],
)
def test_an_empty_result_is_a_sentence_and_no_json(
    empty: Servers, command: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    words = command.split()
    place = [] if words[0] == "context" else ["-n", empty.namesrv]
    done = pyromq_here(*words, *place)
    assert done.returncode == 0, done
    assert sentence in done.stdout + done.stderr
    as_json = pyromq_here(*words, "--json", *place)
    assert as_json.returncode == 0
    assert all(json.loads(line) for line in as_json.stdout.splitlines())


# --- misspelt names


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("topic lits", "Did you mean 'list'?"),
        ("cluster kv lst", "Did you mean 'list'"),
        ("group describ x", "Did you mean 'describe'?"),
        ("tpoic list", "did you mean topic?"),
        ("topic list --jsn", "--json"),
    ],
)
def test_a_misspelt_verb_or_option_names_the_nearest(command: str, meant: str) -> None:
    done = pyromq_here(*command.split())
    assert done.returncode == 2
    assert meant in " ".join(done.stderr.replace("│", " ").split())


@pytest.fixture(scope="module")
def named(servers: Servers) -> Servers:
    """A cluster with the topic `orders` and the group `billing`."""
    assert pyromq_here("topic", "create", "orders", "-n", servers.namesrv).returncode == 0
    assert pyromq_here("group", "set", "billing", "retry_max_times=3", "-n", servers.namesrv).returncode == 0
    return servers


@pytest.mark.parametrize(
    "command", ["topic describe ordres", "tail ordres", "message find ordres --key k", "topic set ordres --perm r"]
)
def test_a_misspelt_topic_names_the_nearest(named: Servers, command: str) -> None:
    done = pyromq_here(*command.split(), "-n", named.namesrv)
    assert done.returncode == 1
    assert "did you mean orders?" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "command", ["group describe biling", "group reset biling --to latest", "group delete biling", "dlq show biling"]
)
def test_a_misspelt_group_names_the_nearest(named: Servers, command: str) -> None:
    done = pyromq_here(*command.split(), "-n", named.namesrv)
    assert done.returncode == 1
    assert "did you mean billing?" in done.stderr


# --- tables and help pages


def test_a_name_that_does_not_fit_goes_on_in_the_next_line() -> None:
    table = Table("topic", "broker", "queues")
    table.add_row("a-topic-with-a-name-that-is-long", "broker-with-a-long-name", "4")
    console = OutputConsole(file=io.StringIO(), width=40)
    console.print(table)
    file = console.file
    assert isinstance(file, io.StringIO)
    shown = file.getvalue()
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    cells = [line.split("│")[1].strip() for line in shown.splitlines() if line.count("│") == 4]
    assert "".join(cells) == "a-topic-with-a-name-that-is-long"


@pytest.mark.parametrize("words", PAGES, ids=lambda words: words or "pyromq")
def test_no_name_is_cut_in_a_narrow_terminal(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    text = pyromq_here(*words.split(), "--help").stdout
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    for name in (name for parameter in PAGES[words].params for name in parameter.opts if name.startswith("--")):
        assert re.search(rf"{re.escape(name)}(?![\w-])", text), name


def test_short_forms_exist() -> None:
    assert pyromq_here("-V").stdout == pyromq_here("--version").stdout
    assert pyromq_here("-h").stdout == pyromq_here("--help").stdout
    assert pyromq_here("topic", "list", "-h").stdout.strip().startswith("Usage: pyromq topic list")


def test_one_thing_is_not_said_in_plural() -> None:
    """Texts with a count go through a function that knows one from many, or name the thing before the number."""
    wrong = re.compile(r"\{(?:len\()?[\w.()]+(?::,)?\} (?:messages|queues|topics|groups|brokers|members|files) ")
    root = Path(__file__).parent.parent.parent / "src" / "pyromq" / "cli"
    found = [
        f"{path.name}: {line.strip()}"
        for path in root.rglob("*.py")
        for line in path.read_text().splitlines()
        if wrong.search(line) and "== 1" not in line
    ]
    assert found == []
