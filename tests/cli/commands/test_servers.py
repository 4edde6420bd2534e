"""`pyromq up` and `namesrv` as a person starts them."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from pyromq.broker.replication.last_run import LAST_RUN_NAME
from pyromq.broker.replication.rescue.known_slaves import SLAVES_NAME
from pyromq.store.files import OsFiles
from pyromq.store.small_files.sealed_file import replace_sealed
from tests.cli.conftest import FREE_PORTS, Servers, one_line_error, pyromq, pyromq_here, start_up, stop


def test_up_serves_the_console_that_its_ready_line_names(servers: Servers) -> None:
    with urllib.request.urlopen(servers.console, timeout=10) as answer:
        page = answer.read().decode()
    assert "<h1>Overview</h1>" in page
    assert "DefaultCluster" in page


def test_the_console_port_serves_the_pages_for_machines(servers: Servers) -> None:
    with urllib.request.urlopen(f"{servers.console}/healthz", timeout=10) as answer:
        assert json.load(answer) == {"status": "ok", "problems": []}
    with urllib.request.urlopen(f"{servers.console}/readyz", timeout=10) as answer:
        assert json.load(answer) == {"status": "ready", "reasons": {}}
    with urllib.request.urlopen(f"{servers.console}/metrics", timeout=10) as answer:
        assert b"pyromq_broker_messages_put_total{" in answer.read()
    with urllib.request.urlopen(f"{servers.console}/varz", timeout=10) as answer:
        facts = json.load(answer)
    assert facts["namesrv"]["address"] == servers.namesrv
    assert facts["brokers"][0]["address"] == servers.broker


@pytest.mark.parametrize("verb", ["up", "namesrv", "broker"])
def test_a_token_file_that_others_may_read_is_one_line(tmp_path: Path, verb: str) -> None:
    (tmp_path / "token").write_text("0123456789abcdef\n")
    (tmp_path / "token").chmod(0o644)
    line = one_line_error(pyromq_here(verb, "--data", str(tmp_path), "--http-token-file", str(tmp_path / "token")))
    assert line.endswith(f"chmod 600 {tmp_path}/token")


@pytest.mark.parametrize("option", ["--namesrv-port", "--port", "--console-port"])
def test_a_port_in_use_names_the_option_that_chooses_another(servers: Servers, tmp_path: Path, option: str) -> None:
    taken = {"--namesrv-port": servers.namesrv, "--port": servers.broker, "--console-port": servers.console}[option]
    port = taken.rpartition(":")[2]
    done = pyromq("up", "--data", str(tmp_path), *FREE_PORTS, option, port)
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert f":{port}: address already in use" in line
    assert f"choose another port with {option}" in line
    assert "Traceback" not in done.stderr


def test_a_console_port_in_use_starts_no_server(servers: Servers, tmp_path: Path) -> None:
    port = servers.console.rpartition(":")[2]
    line = one_line_error(pyromq("up", "--data", str(tmp_path / "new"), *FREE_PORTS, "--console-port", port))
    assert "--console-port" in line
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "arguments",
    ["namesrv --port 99999", "up --console-port 65536", "broker --http-port -1", "store serve . --port 70000"],
)
def test_a_number_that_is_no_port_is_wrong_usage(arguments: str) -> None:
    done = pyromq_here(*arguments.split())
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", ["up", "broker", "namesrv"])
def test_a_listen_port_that_is_no_number_is_one_line(tmp_path: Path, verb: str) -> None:
    line = one_line_error(pyromq_here(verb, "--data", str(tmp_path), "--set", "listenPort=abc"))
    assert line == "pyromq: listenPort must be a whole number, not 'abc'"


def test_a_host_that_is_not_of_this_machine_is_one_line(tmp_path: Path) -> None:
    done = pyromq_here("namesrv", "--host", "192.0.2.1", "--port", "0")
    assert one_line_error(done).endswith("choose an address of this machine with --host")


class TestNamesrv:
    """Settings of `pyromq namesrv`."""

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (("--set", "orderMesageEnable=true"), "the nearest is orderMessageEnable"),
            (("--set", "clusterTest=true"), "clusterTest=true is not supported"),
            (("--set", "kvConfigPath=/tmp/kv.json", "--data", "/tmp"), "--data and kvConfigPath both"),
        ],
    )
    def test_wrong_settings_are_one_line(self, arguments: tuple[str, ...], reason: str) -> None:
        assert reason in one_line_error(pyromq_here("namesrv", *arguments))

    def test_an_unknown_key_of_a_file_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "namesrv.conf").write_text("brokerName=broker-a\n")
        line = one_line_error(pyromq_here("namesrv", "-c", str(tmp_path / "namesrv.conf")))
        assert "unknown configuration key brokerName" in line

    def test_a_file_of_apache_starts_it_and_keys_without_effect_are_one_warning(self, tmp_path: Path) -> None:
        text = f"listenPort=0\nkvConfigPath={tmp_path}/kv/kvConfig.json\nserverWorkerThreads=8\nrocketmqHome=/x\nzz=1\n"
        (tmp_path / "namesrv.conf").write_text(text)
        command = [
            sys.executable,
            "-m",
            "pyromq.cli.main",
            "namesrv",
            "-c",
            str(tmp_path / "namesrv.conf"),
            "--lenient",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert re.match(r"PyroMQ name server ready: 127\.0\.0\.1:\d+\n", process.stdout.readline())
            process.send_signal(signal.SIGINT)
            _, log = process.communicate(timeout=30)
        assert process.returncode == 0, log
        warnings = [line for line in log.splitlines() if "WARNING" in line]
        assert len(warnings) == 1, log
        assert warnings[0].endswith("settings without effect: serverWorkerThreads, zz")
        assert (tmp_path / "kv").is_dir()


def test_brokers_and_slaves_start_in_one_process(tmp_path: Path) -> None:
    running = start_up(tmp_path, "--brokers", "2", "--slaves", "1")
    try:
        assert len(running.broker.split(",")) == 4
        with urllib.request.urlopen(f"{running.console}/varz", timeout=10) as answer:
            brokers = json.load(answer)["brokers"]
        assert len({broker["address"] for broker in brokers}) == 4
        assert {path.name for path in tmp_path.iterdir()} >= {
            "store",
            "broker-b",
            "broker-a-slave-1",
            "broker-b-slave-1",
        }
        sent = pyromq_here("send", "orders", "x", "-n", running.namesrv)
        assert sent.returncode == 0, sent.stderr
        shown = json.loads(pyromq_here("cluster", "status", "--json", "-n", running.namesrv).stdout)["brokers"]
        assert {one["address"] for one in shown} == set(running.broker.split(","))
        assert [(one["broker_name"], one["broker_id"], one["role"]) for one in shown] == [
            ("broker-a", 0, "ASYNC_MASTER"),
            ("broker-a", 1, "SLAVE"),
            ("broker-b", 0, "ASYNC_MASTER"),
            ("broker-b", 1, "SLAVE"),
        ]
    finally:
        assert stop(running) == 0


def go_down(root: Path) -> None:
    """Leave a directory as a master's whose machine went down, and which had a slave."""
    root.mkdir(parents=True)
    replace_sealed(OsFiles(), str(root / LAST_RUN_NAME), {"boot": "an earlier one", "lost": True})
    replace_sealed(OsFiles(), str(root / SLAVES_NAME), {"1": "127.0.0.1:1"})


def test_a_master_that_waits_for_its_slave_lets_it_start_in_the_same_process(tmp_path: Path) -> None:
    go_down(tmp_path / "store")
    running = start_up(tmp_path, "--slaves", "1", "--set", "brokerRole=SYNC_MASTER")
    assert stop(running) == 0
    log = (tmp_path / "stderr.log").read_text()
    assert "waits up to 60 s more for slave 1" in log
    assert "starts without" not in log


def test_a_broker_that_waits_for_its_slave_can_be_stopped(tmp_path: Path) -> None:
    go_down(tmp_path / "store")
    arguments = [
        "broker",
        "--data",
        str(tmp_path),
        "--port",
        "0",
        "-n",
        "127.0.0.1:1",
        "--set",
        "brokerRole=SYNC_MASTER",
    ]
    command = [sys.executable, "-m", "pyromq.cli.main", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "waits up to" not in (line := process.stderr.readline()):
            assert line, "it ended"
        process.terminate()
        out, log = process.communicate(timeout=30)
    assert process.returncode == 0, log
    assert "ready" not in out
    assert "Traceback" not in log


@pytest.mark.parametrize("key", ["storePathRootDir", "storePathCommitLog", "haListenPort"])
def test_what_only_one_broker_can_have_is_refused_for_several(key: str) -> None:
    line = one_line_error(pyromq_here("up", "--slaves", "1", "--set", f"{key}=1"))
    assert line == f"pyromq: {key} belongs to one broker: it cannot be used with --brokers or --slaves"


def test_the_port_for_slaves_in_use_names_its_options(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        arguments = ("--set", f"haListenPort={port}", "-n", "127.0.0.1:1", "--port", "0", "--data", str(tmp_path))
        done = pyromq("broker", *arguments)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port} for slaves: address already in use" in done.stderr
    assert "with --port; a broker also takes the ports" in done.stderr
