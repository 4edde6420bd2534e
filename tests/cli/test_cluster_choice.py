"""Every command works with the chosen context, and a protected one asks before it is changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.admin import ClusterContext, Contexts
from pyromq.testing import LocalCluster
from tests.cli.conftest import one_line_error, pyromq_here
from tests.cli.test_help import PAGES
from tests.client.signed_requests import SHOP, Requests


@pytest.fixture(scope="module")
def servers() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


@pytest.fixture
def contexts(servers: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Contexts:
    """`here` is the cluster, `guarded` too, with an account and questions; `gone` is nowhere."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    found = Contexts()
    found.add("here", ClusterContext(namesrv=servers.namesrv))
    keys = SHOP.access_key, SHOP.secret_key
    guarded = ClusterContext(
        namesrv=servers.namesrv, colour="red", confirm=True, access_key=keys[0], secret_key=keys[1]
    )
    found.add("guarded", guarded)
    found.add("gone", ClusterContext(namesrv="127.0.0.1:2"))
    return found


def test_the_order_is_option_then_context_then_variable(
    contexts: Contexts, servers: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "127.0.0.1:1" in one_line_error(pyromq_here("topic", "list")), "NAMESRV_ADDR, as no context is chosen"
    contexts.use("here")
    assert pyromq_here("topic", "list").returncode == 0
    monkeypatch.setenv("PYROMQ_CONTEXT", "gone")
    assert "127.0.0.1:2" in one_line_error(pyromq_here("topic", "list")), "the variable wins over the chosen one"
    assert pyromq_here("topic", "list", "--context", "here").returncode == 0
    assert pyromq_here("--context", "here", "topic", "list").returncode == 0
    assert pyromq_here("topic", "list", "-n", servers.namesrv).returncode == 0
    assert os.environ["NAMESRV_ADDR"] == "127.0.0.1:1", "a command leaves the environment as it was"


def test_both_options_are_wrong_usage_and_an_unknown_context_is_one_line(contexts: Contexts) -> None:
    done = pyromq_here("topic", "list", "-n", "127.0.0.1:2", "--context", "here")
    assert done.returncode == 2
    assert "both name the cluster" in done.stderr
    assert "did you mean here?" in one_line_error(pyromq_here("topic", "list", "--context", "her"))


def test_requests_are_signed_with_the_account_of_the_context_and_only_there(
    contexts: Contexts, servers: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts.use("guarded")
    requests = Requests(monkeypatch)
    assert pyromq_here("topic", "list").returncode == 0
    assert requests.accounts()[SHOP.access_key]
    requests = Requests(monkeypatch)
    assert pyromq_here("topic", "list", "-n", servers.namesrv).returncode == 0
    with pytest.raises(AssertionError, match="is not signed"):
        requests.accounts()  # an address without its context gets no account of another cluster


def test_a_damaged_file_stops_commands_that_would_use_it_and_no_others(
    contexts: Contexts, servers: LocalCluster
) -> None:
    contexts.path.write_text("{")
    assert "is not a file of contexts" in one_line_error(pyromq_here("topic", "list"))
    assert pyromq_here("topic", "list", "-n", servers.namesrv).returncode == 0


CHANGES = [
    ("topic", "create", "made"),
    ("topic", "set", "made", "--perm", "r"),
    ("topic", "resize", "made", "--queues", "32"),
    ("topic", "delete", "made"),
    ("group", "set", "made", "consume_enable=false"),
    ("send", "made", "a body"),
    ("bench", "send", "--duration", "0.1"),
]


@pytest.mark.parametrize("command", CHANGES, ids=lambda words: " ".join(words[:2]))
def test_a_protected_context_is_asked_about_before_every_change(
    contexts: Contexts, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    if command[1] != "create" and "made" in command:
        pyromq_here("topic", "create", "made", "--context", "here")
    contexts.use("guarded")
    before = pyromq_here("topic", "list", "--json").stdout
    done = pyromq_here(*command)
    assert done.returncode == 1
    assert "[guarded] " in done.stderr
    assert done.stderr.endswith("pyromq: not confirmed, nothing was changed; --yes does not ask\n")
    assert pyromq_here("topic", "list", "--json").stdout == before


def test_yes_a_dry_run_and_an_answer_of_yes_go_on(contexts: Contexts) -> None:
    contexts.use("guarded")
    assert pyromq_here("topic", "create", "dry", "--dry-run").returncode == 0
    assert pyromq_here("topic", "create", "first", "--yes").returncode == 0
    done = pyromq_here("topic", "create", "second", text="y\n")
    assert done.returncode == 0, done.stderr
    assert "[guarded] `pyromq topic create` changes the cluster at " in done.stderr
    assert pyromq_here("topic", "create", "third", "--context", "here").returncode == 0, "it does not ask"


def test_every_command_that_asks_a_cluster_has_the_option() -> None:
    asking = {words: {one.name for one in page.params} for words, page in PAGES.items()}
    asking = {words: names for words, names in asking.items() if "namesrv" in names}
    assert len(asking) > 20
    assert [words for words, names in asking.items() if "context" not in names] == []
    assert [words for words, names in asking.items() if "dry_run" in names and "yes" not in names] == []
