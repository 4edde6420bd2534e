"""`pyromq debug bundle` of a running server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.admin.support.test_bundle import contents
from tests.cli.conftest import Servers, one_line_error, pyromq_here


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_bundle_has_all_of_a_running_server(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYROMQ_ADMIN_PASSWORD", "planted-for-the-command")
    (tmp_path / "token").write_text("planted-token-of-http\n")
    (tmp_path / "broker.conf").write_text("brokerName=broker-a\nhaSecret=planted-for-the-command\n")
    done = pyromq_here(
        "debug", "bundle", "--out", "x.tar.gz", "--data", str(servers.data), "--http", servers.console,
        "--http-token-file", "token", "-c", "broker.conf", "-n", servers.namesrv,
    )  # fmt: skip
    assert done.returncode == 0, done
    assert done.stdout.startswith("x.tar.gz: ")
    found = contents(Path("x.tar.gz"))
    folders = {name.partition("/")[0] for name in found}
    assert {"brokers", "http", "store", "logs", "config", "doctor.jsonl", "cluster.json"} <= folders
    assert any(name.endswith("/varz.json") for name in found)
    everything = "".join([*found, *found.values()])
    assert "planted" not in everything


def test_the_report_as_json_names_what_is_missing(servers: Servers) -> None:
    done = pyromq_here("debug", "bundle", "--http", "http://127.0.0.1:1", "--json", "-n", servers.namesrv)
    report = json.loads(done.stdout)
    assert done.returncode == 0
    assert Path(report["file"]).name.startswith("pyromq-debug-")
    assert all(name.startswith("http/") for name in report["missing"])
    again = pyromq_here("debug", "bundle", "--out", report["file"], "-n", servers.namesrv)
    assert "exists; choose another name with --out" in one_line_error(again)


def test_a_file_of_a_token_that_is_missing_is_one_line() -> None:
    done = pyromq_here("debug", "bundle", "--http-token-file", "none", "-n", "127.0.0.1:1")
    assert one_line_error(done) == "pyromq: none: No such file or directory"


def test_a_bundle_can_be_made_without_a_cluster(tmp_path: Path) -> None:
    done = pyromq_here("debug", "bundle", "--out", "x.tar.gz", "-n", "127.0.0.1:1")
    assert done.returncode == 0
    assert "not included: cluster: no name server answers" in done.stderr
    assert "doctor.jsonl" in contents(Path("x.tar.gz"))
