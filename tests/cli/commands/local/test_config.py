"""`pyromq config check`: everything that is wrong with a file, at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyromq.cli.commands.local.config import TABLES, Server, find
from tests.cli.conftest import one_line_error, pyromq_here
from tests.settings.apache_keys import BROKER_CONF, NAMESRV_CONF

FILE = """\
# a file with one fault of each kind
brokerNam=broker-a
listenPort=99999
useEpollNativeSelector=true
mapedFileSizeCommitLog=1073741824
enableDLegerCommitLog=true
kvConfigPath=/data/kv.json
deleteWhen=04
deleteWhen=05
"""


def written(directory: Path, text: str) -> str:
    path = directory / "broker.conf"
    path.write_text(text)
    return str(path)


def test_every_finding_has_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, FILE)
    done = pyromq_here("config", "check", path)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"{path}:2: error: unknown configuration key brokerNam; the nearest is brokerName",
        f"{path}:3: error: listenPort must be between 0 and 65535, not 99999",
        f"{path}:6: error: enableDLegerCommitLog=true is not supported: DLedger is not part of PyroMQ",
        f"{path}:7: error: kvConfigPath is a key of the name server; `--for namesrv` checks its file",
        f"{path}:8: warning: deleteWhen is given again in line 9, which counts",
        f"{path}: warning: 1 key has no effect here: useEpollNativeSelector (line 4)",
        f"{path}: 4 errors, 2 warnings for a broker",
    ]
    assert done.stderr == ""


def test_findings_are_json_lines(tmp_path: Path) -> None:
    done = pyromq_here("config", "check", written(tmp_path, "traceOn=maybe\n"), "--json")
    assert done.returncode == 1
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {
            "line": 1,
            "severity": "error",
            "key": "traceOn",
            "text": "traceOn must be true or false, not 'maybe'",
            "kind": "value",
        }
    ]


def test_a_file_without_errors_is_exit_code_0(tmp_path: Path) -> None:
    path = written(tmp_path, "brokerName=broker-a\nuseEpollNativeSelector=true\n")
    done = pyromq_here("config", "check", path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"{path}: no errors, 1 warning for a broker")


def test_lenient_makes_unknown_keys_warnings(tmp_path: Path) -> None:
    assert pyromq_here("config", "check", written(tmp_path, "zz=1\n"), "--lenient").returncode == 0


def test_the_file_of_a_name_server_has_other_keys(tmp_path: Path) -> None:
    path = written(tmp_path, "listenPort=9876\nkvConfigPath=/data/kv.json\nserverWorkerThreads=8\n")
    assert pyromq_here("config", "check", path, "--for", "namesrv").returncode == 0
    done = pyromq_here("config", "check", written(tmp_path, "mapedFileSizeCommitLog=1\n"), "--for", "namesrv")
    assert "is a key of the broker; `--for broker` checks its file" in done.stdout


def test_whose_file_it_is_is_seen_by_its_name_or_its_keys(tmp_path: Path) -> None:
    path = written(tmp_path, "listenPort=9876\nkvConfigPath=/data/kv.json\n")
    assert pyromq_here("config", "check", path).stdout == f"{path}: no errors, no warnings for a name server\n"
    named = tmp_path / "namesrv-2.conf"
    named.write_text("listenPort=9876\n")
    assert pyromq_here("config", "check", str(named)).stdout == f"{named}: no errors, no warnings for a name server\n"
    path = written(tmp_path, "listenPort=9876\nkvConfigPath=/data/kv.json\nbrokerName=broker-a\n")
    assert "kvConfigPath is a key of the name server" in pyromq_here("config", "check", path).stdout


@pytest.mark.parametrize(("server", "keys"), [("broker", BROKER_CONF), ("namesrv", NAMESRV_CONF)])
def test_a_file_with_every_key_of_apaches_has_one_warning_for_all_without_effect(
    tmp_path: Path, server: str, keys: list[str]
) -> None:
    idle = TABLES[Server(server)].without_effect & set(keys)
    assert idle
    path = written(tmp_path, "".join(f"{key}=1\n" for key in sorted(idle)))
    done = pyromq_here("config", "check", path, "--for", server)
    assert done.returncode == 0, done.stdout
    warning, last = done.stdout.splitlines()
    assert warning.startswith(f"{path}: warning: {len(idle)} keys have no effect here: ")
    assert all(f"{key} (line " in warning for key in idle)
    assert "no errors, 1 warning for a " in last
    unknown = find("".join(f"{key}=1\n" for key in keys), Server(server))
    assert [finding for finding in unknown if finding.kind == "unknown"] == []


def test_an_old_spelling_counts_and_beside_the_new_one_is_named(tmp_path: Path) -> None:
    done = pyromq_here("config", "check", written(tmp_path, "mapedFileSizeCommitLog=1048576\n"))
    assert done.stdout.endswith("no errors, no warnings for a broker\n")
    done = pyromq_here("config", "check", written(tmp_path, "mapedFileSizeCommitLog=9\n"))
    assert ":1: error: mappedFileSizeCommitLog must be between" in done.stdout
    both = "mapedFileSizeCommitLog=1048576\nmappedFileSizeCommitLog=2097152\n"
    done = pyromq_here("config", "check", written(tmp_path, both))
    assert (
        ":1: warning: mapedFileSizeCommitLog is the old name of mappedFileSizeCommitLog, which is also" in done.stdout
    )


def test_values_that_do_not_fit_together_are_errors(tmp_path: Path) -> None:
    path = written(tmp_path, "brokerName=a b\n")
    done = pyromq_here("config", "check", path)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{path}: error: brokerName: ")


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    assert "cannot read" in one_line_error(pyromq_here("config", "check", str(tmp_path)))
