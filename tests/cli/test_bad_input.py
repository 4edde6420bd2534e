"""Bad input gets one clear line and an exit code; the server keeps running."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.cli.conftest import FREE_PORTS, Servers, one_line_error, pyromq, pyromq_here, start_up, stop


def still_works(servers: Servers) -> None:
    assert pyromq_here("send", "alive", "yes", "-n", servers.namesrv).returncode == 0


def test_tail_of_an_unknown_topic(servers: Servers) -> None:
    assert "nowhere" in one_line_error(pyromq("tail", "nowhere", "-n", servers.namesrv))


@pytest.mark.parametrize("command", [("send", "t", "x"), ("tail", "t"), ("bench", "send")])
def test_an_unreachable_name_server(command: tuple[str, ...]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"  # bound, so that nobody else can listen there
        assert address in one_line_error(pyromq_here(*command, "-n", address))


@pytest.mark.parametrize(
    "command",
    ["send t x", "tail t", "topic list", "group list", "dlq list", "message pending", "transaction list", "bench send"],
)
def test_a_broker_given_as_name_server(servers: Servers, command: str) -> None:
    line = one_line_error(pyromq_here(*command.split(), "-n", servers.broker))
    assert "that is a broker" in line
    assert line.count(servers.broker) == 1


@pytest.mark.parametrize("command", ["send t x", "tail t", "topic list", "bench send"])
def test_commas_between_name_servers(command: str) -> None:
    assert "';'" in one_line_error(pyromq_here(*command.split(), "-n", "127.0.0.1:1,127.0.0.1:2"))


def test_a_port_in_use(servers: Servers, tmp_path: Path) -> None:
    port = servers.broker.rpartition(":")[2]
    done = pyromq("broker", "-n", servers.namesrv, "--port", port, "--data", str(tmp_path))
    assert port in _last_error(done.stderr)
    assert done.returncode == 1
    still_works(servers)


def _last_error(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.startswith("pyromq: ")]
    assert len(lines) == 1, stderr
    assert "Traceback" not in stderr
    return lines[0]


def test_a_data_directory_in_use(servers: Servers) -> None:
    done = pyromq("broker", "-n", servers.namesrv, "--port", "0", "--data", str(servers.data))
    assert done.returncode == 1
    assert str(servers.data) in _last_error(done.stderr)
    still_works(servers)


def test_a_body_over_the_limit(servers: Servers, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * (4 * 1024 * 1024 + 1))
    assert "4194304" in one_line_error(pyromq_here("send", "t", "--file", str(path), "-n", servers.namesrv))
    still_works(servers)


@pytest.mark.parametrize("name", ["a b", "../up", "ü", "x" * 128, ""])
def test_an_illegal_topic_name(servers: Servers, name: str) -> None:
    assert "topic" in one_line_error(pyromq_here("send", name, "x", "-n", servers.namesrv))
    still_works(servers)


def test_an_unknown_configuration_key_names_the_nearest(tmp_path: Path) -> None:
    line = _last_error(pyromq("up", "--data", str(tmp_path), *FREE_PORTS, "--set", "flushDiskTipe=ASYNC_FLUSH").stderr)
    assert "flushDiskTipe" in line
    assert "flushDiskType" in line


def test_an_unknown_key_in_a_file_is_an_error_unless_lenient(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName=b1\nnoSuchKey=1\n")
    data = tmp_path / "data"
    refused = pyromq("up", "--data", str(data), *FREE_PORTS, "-c", str(file))
    assert refused.returncode == 1
    assert "noSuchKey" in _last_error(refused.stderr)
    servers = start_up(data, "-c", str(file), "--lenient")
    assert stop(servers) == 0
    assert "noSuchKey" in (data / "stderr.log").read_text()


def test_data_and_a_store_path_together_are_an_error(tmp_path: Path) -> None:
    done = pyromq("up", "--data", str(tmp_path), *FREE_PORTS, "--set", f"storePathRootDir={tmp_path / 'x'}")
    assert done.returncode == 1
    assert "storePathRootDir" in _last_error(done.stderr)


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", os.urandom(4096), b"\x00\x00\x00\x08\x00\xff\xff\xff1234"],
)
def test_garbage_on_either_port(servers: Servers, garbage: bytes) -> None:
    for address in (servers.namesrv, servers.broker):
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as peer:
            peer.sendall(garbage)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(65536):
                pass
    still_works(servers)
    assert "Traceback" not in (servers.data / "stderr.log").read_text()


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("a >", "SQL92: expected a property, a literal or `(` at character 4, found the end"),
        ("a > 'x'", "cannot be ordered"),
        ("a = 1 b = 2", "brokers ignore 'b = 2'"),
        (" ", "expected tags such as"),
    ],
)
def test_a_wrong_sql_expression(servers: Servers, expression: str, reason: str) -> None:
    still_works(servers)
    assert reason in one_line_error(pyromq_here("tail", "alive", "--sql", expression, "-n", servers.namesrv))


def test_a_broker_that_does_not_filter_by_sql(tmp_path: Path) -> None:
    servers = start_up(tmp_path, "--set", "enablePropertyFilter=false")
    still_works(servers)
    line = one_line_error(pyromq_here("tail", "alive", "--sql", "a > 1", "-n", servers.namesrv))
    assert "enablePropertyFilter=true" in line
    assert stop(servers) == 0


def test_wrong_usage_is_exit_code_two(servers: Servers) -> None:
    assert pyromq_here("tail", "t", "--tag", "a", "--sql", "a > 1", "-n", servers.namesrv).returncode == 2
    assert pyromq_here("send", "t", "-n", servers.namesrv).returncode == 2
    assert pyromq_here("up", "--set", "nonsense").returncode == 2
    assert pyromq("no-such-verb").returncode == 2
