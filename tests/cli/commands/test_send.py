"""`pyromq send` as a person uses it: real processes, real sockets."""

from __future__ import annotations

import json

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
