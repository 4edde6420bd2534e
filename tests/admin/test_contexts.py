"""Contexts: named clusters in one file of the user."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from pyromq import blocking
from pyromq.admin import AdminClient, ClusterContext, Contexts
from pyromq.admin.contexts import chosen_context, contexts_path
from pyromq.errors import ClientError, ConfigError
from pyromq.testing import LocalCluster

PROD = ClusterContext(namesrv="10.0.0.1:9876;10.0.0.2:9876", access_key="ops", secret_key="hunter2", confirm=True)
TEST = ClusterContext(namesrv="127.0.0.1:9876")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "pyromq" / "contexts.json"


def test_contexts_are_kept_in_a_file_that_only_its_user_can_read(path: Path) -> None:
    Contexts().add("prod", PROD)
    Contexts().add("test", TEST)
    Contexts().use("prod")
    assert Contexts().all == {"prod": PROD, "test": TEST}
    assert Contexts().current == "prod"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["contexts.json"]


def test_a_file_with_secrets_that_others_can_read_is_refused(path: Path) -> None:
    Contexts().add("test", TEST)
    path.chmod(0o644)
    assert Contexts().all == {"test": TEST}, "it holds no secret"
    path.chmod(0o600)
    Contexts().add("prod", PROD)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="holds secrets and others may use it: chmod 600"):
        Contexts()


def test_a_file_of_another_format_is_refused_by_name_and_stays(path: Path) -> None:
    path.parent.mkdir()
    for text, problem in (('{"version": 2}', "has the format version 2"), ("[", "is not a file of contexts")):
        path.write_text(text)
        with pytest.raises(ConfigError, match=problem):
            Contexts()
        assert path.read_text() == text


@pytest.mark.parametrize(
    ("name", "context", "problem"),
    [
        ("", TEST, "a context's name"),
        ("-n", TEST, "a context's name"),
        ("a/b", TEST, "a context's name"),
        ("x", ClusterContext(namesrv="nowhere"), "not a name server's address"),
        ("x", ClusterContext(namesrv="h:1", access_key="ops"), "one of them is missing"),
        ("x", ClusterContext(namesrv="h:1", colour="pink"), "not one of the colours red,"),
        ("test", TEST, "there is already a context 'test'"),
    ],
)
def test_what_is_wrong_is_not_saved(path: Path, name: str, context: ClusterContext, problem: str) -> None:
    Contexts().add("test", TEST)
    before = path.read_bytes()
    with pytest.raises(ClientError, match=problem):
        Contexts().add(name, context)
    assert path.read_bytes() == before


def test_a_context_that_is_removed_is_chosen_no_more_and_its_secret_is_gone(path: Path) -> None:
    contexts = Contexts()
    contexts.add("prod", PROD)
    contexts.use("prod")
    contexts.remove("prod")
    assert (Contexts().current, dict(Contexts().all)) == (None, {})
    assert "hunter2" not in path.read_text()


def test_an_unknown_name_is_an_error_with_the_nearest(path: Path) -> None:
    contexts = Contexts()
    contexts.add("prod", PROD)
    for call in (contexts.get, contexts.use, contexts.remove):
        with pytest.raises(ClientError, match=r"there is no context 'prd'; did you mean prod\?"):
            call("prd")


def test_the_name_wins_over_the_variable_and_that_over_the_chosen_one(path: Path) -> None:
    contexts = Contexts()
    assert chosen_context(contexts=contexts) is None
    for name in ("one", "two", "three"):
        contexts.add(name, TEST)
    contexts.use("one")
    variable = {"PYROMQ_CONTEXT": "two"}
    assert chosen_context(contexts=contexts) == ("one", TEST)
    assert chosen_context(None, variable, contexts) == ("two", TEST)
    assert chosen_context("three", variable, contexts) == ("three", TEST)


def test_the_secret_is_in_no_text_of_a_context() -> None:
    assert "hunter2" not in f"{PROD} {PROD!r} {PROD.credentials!r}"


def test_the_file_is_below_the_home_directory_without_the_variable() -> None:
    assert contexts_path({}) == Path.home() / ".config" / "pyromq" / "contexts.json"


async def test_a_client_is_made_from_a_context(path: Path, cluster: LocalCluster) -> None:
    with pytest.raises(ClientError, match="no context is chosen"):
        AdminClient.from_context()
    Contexts().add("here", ClusterContext(namesrv=cluster.namesrv))
    async with AdminClient.from_context("here", clock=cluster.clock) as admin:
        assert list(await admin.masters()) == ["broker-a"]


def test_a_blocking_client_is_made_from_a_context(path: Path, cluster: LocalCluster) -> None:
    contexts = Contexts()
    contexts.add("here", ClusterContext(namesrv=cluster.namesrv))
    contexts.use("here")
    with blocking.AdminClient.from_context() as admin:
        assert list(admin.masters()) == ["broker-a"]


def test_json_has_the_version_and_leaves_out_what_is_not_set(path: Path) -> None:
    Contexts().add("test", TEST)
    assert json.loads(path.read_text()) == {
        "version": 1,
        "current": None,
        "contexts": {"test": {"namesrv": "127.0.0.1:9876"}},
    }
