"""The commands as a person uses them: real processes, real sockets."""

from __future__ import annotations

import json
import urllib.request

import pytest

from tests.cli.conftest import Servers, pyromq, pyromq_here


def test_a_sent_message_is_tailed_with_all_it_carried(servers: Servers) -> None:
    sent = pyromq(
        "send",
        "greetings",
        "hello",
        "-n",
        servers.namesrv,
        "--tag",
        "morning",
        "--key",
        "k1",
        "--property",
        "a=b",
        "--json",
    )
    assert sent.returncode == 0, sent.stderr
    result = json.loads(sent.stdout)
    assert result["status"] == "SEND_OK"
    tailed = pyromq("tail", "greetings", "-n", servers.namesrv, "--from", "earliest", "--count", "1", "--json")
    assert tailed.returncode == 0, tailed.stderr
    message = json.loads(tailed.stdout)
    assert message["topic"] == "greetings"
    assert message["body"] == "hello"
    assert message["tags"] == "morning"
    assert message["keys"] == ["k1"]
    assert message["properties"]["a"] == "b"
    assert message["message_id"] == result["message_id"]
    assert message["queue_offset"] == result["queue_offset"]
    assert message["store_timestamp"].endswith("Z")


def test_each_line_of_stdin_becomes_a_message_in_order(servers: Servers) -> None:
    text = "".join(f"line {number}\n" for number in range(50))
    sent = pyromq("send", "lines", "-", "-n", servers.namesrv, "--order-key", "x", text=text)
    assert sent.returncode == 0, sent.stderr
    tailed = pyromq("tail", "lines", "-n", servers.namesrv, "--from", "earliest", "--count", "50", "--json")
    assert [json.loads(line)["body"] for line in tailed.stdout.splitlines()] == text.splitlines()


def test_a_body_that_is_no_text_is_shown_as_base64(servers: Servers, tmp_path_factory: object) -> None:
    path = servers.data / "body.bin"
    path.write_bytes(b"\xff\x00\xfe")
    assert pyromq_here("send", "binary", "--file", str(path), "-n", servers.namesrv).returncode == 0
    tailed = pyromq_here("tail", "binary", "-n", servers.namesrv, "--from", "earliest", "--count", "1", "--json")
    message = json.loads(tailed.stdout)
    assert (message["body"], message["body_encoding"]) == ("/wD+", "base64")


def test_tail_filters_by_tag(servers: Servers) -> None:
    for tag in ("a", "b", "a"):
        assert pyromq_here("send", "tagged", tag, "--tag", tag, "-n", servers.namesrv).returncode == 0
    tailed = pyromq_here(
        "tail", "tagged", "-n", servers.namesrv, "--tag", "a", "--from", "earliest", "--count", "2", "--json"
    )
    assert [json.loads(line)["tags"] for line in tailed.stdout.splitlines()] == ["a", "a"]


@pytest.mark.parametrize("group", [(), ("--group", "sql-readers")])
def test_tail_filters_by_sql(servers: Servers, group: tuple[str, ...]) -> None:
    topic = f"priced-{len(group)}"
    for amount in ("5", "15", "25", "much"):
        sent = pyromq_here(
            "send", topic, amount, "--property", f"amount={amount}", "-n", servers.namesrv, "--queue", "0"
        )
        assert sent.returncode == 0, sent.stderr
    options = ("--sql", "amount > 10", "--from", "earliest", "--count", "2", "--json", *group)
    tailed = pyromq_here("tail", topic, "-n", servers.namesrv, *options)
    assert tailed.returncode == 0, tailed.stderr
    assert [json.loads(line)["body"] for line in tailed.stdout.splitlines()] == ["15", "25"]


def test_a_group_continues_where_its_last_tail_ended(servers: Servers) -> None:
    text = "".join(f"{number}\n" for number in range(4))
    assert pyromq_here("send", "grouped", "-", "-n", servers.namesrv, "--queue", "0", text=text).returncode == 0
    arguments = (
        "tail",
        "grouped",
        "-n",
        servers.namesrv,
        "--group",
        "g1",
        "--from",
        "earliest",
        "--count",
        "2",
        "--json",
    )
    first, second = pyromq_here(*arguments), pyromq_here(*arguments)
    bodies = [json.loads(line)["body"] for done in (first, second) for line in done.stdout.splitlines()]
    assert bodies == ["0", "1", "2", "3"]


def test_bench_measures_sends_and_pulls(servers: Servers) -> None:
    sent = pyromq_here("bench", "send", "-n", servers.namesrv, "-C", "4", "-W", "8", "--count", "2000", "--json")
    assert sent.returncode == 0, sent.stderr
    assert json.loads(sent.stdout)["messages"] == 2000
    pulled = pyromq_here("bench", "consume", "-n", servers.namesrv, "--duration", "0.3", "--warm-up", "0", "--json")
    assert pulled.returncode == 0, pulled.stderr
    assert json.loads(pulled.stdout)["messages"] > 0


def test_bench_measures_from_the_sender_to_the_consumer(servers: Servers) -> None:
    arguments = ("bench", "end-to-end", "-n", servers.namesrv, "--rate", "200", "--duration", "0.5", "--warm-up", "0")
    done = pyromq(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert 0 < result["messages"] <= 101
    assert (result["lost"], result["errors"]) == (0, 0)
    assert 0 < result["p50_ms"] <= result["max_ms"]
    assert "at a fixed rate" in pyromq(*arguments).stdout


def test_the_console_port_serves_healthz_and_varz(servers: Servers) -> None:
    with urllib.request.urlopen(f"{servers.console}/healthz", timeout=10) as answer:
        assert json.load(answer) == {"status": "ok"}
    with urllib.request.urlopen(f"{servers.console}/varz", timeout=10) as answer:
        facts = json.load(answer)
    assert facts["namesrv"]["address"] == servers.namesrv
    assert facts["brokers"][0]["address"] == servers.broker


def test_version_is_told() -> None:
    assert pyromq("--version").stdout.startswith("pyromq ")
