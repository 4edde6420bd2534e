"""`pyromq send` as a person uses it: real processes, real sockets."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from subprocess import PIPE

from tests.cli.conftest import Servers, one_line_error, pyromq, pyromq_here


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


def test_a_body_that_is_no_text_is_shown_as_base64(servers: Servers) -> None:
    path = servers.data / "body.bin"
    path.write_bytes(b"\xff\x00\xfe")
    assert pyromq_here("send", "binary", "--file", str(path), "-n", servers.namesrv).returncode == 0
    tailed = pyromq_here("tail", "binary", "-n", servers.namesrv, "--from", "earliest", "--count", "1", "--json")
    message = json.loads(tailed.stdout)
    assert (message["body"], message["body_encoding"]) == ("/wD+", "base64")


def start_sending(servers: Servers, topic: str, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pyromq.cli.main", "send", topic, "-", "-n", servers.namesrv, *options]
    return subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True)


def test_a_line_is_sent_before_the_next_one_is_typed(servers: Servers) -> None:
    with start_sending(servers, "typed") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in ("one\n", "two\n"):
            process.stdin.write(text)
            process.stdin.flush()
            assert process.stdout.readline().startswith("SEND_OK")
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 0


def test_the_first_interrupt_ends_it_without_a_traceback(servers: Servers) -> None:
    with start_sending(servers, "typed") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("one\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith("SEND_OK")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_empty_lines_are_skipped_and_counted(servers: Servers) -> None:
    done = pyromq_here("send", "gaps", "-", "-n", servers.namesrv, text="one\n\ntwo\r\n\r\n\n")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == "skipped 3 empty lines: a message has a body\n"


def test_a_line_that_fails_is_named_and_the_others_are_reported(servers: Servers) -> None:
    text = "one\n" + "x" * (4 * 1024 * 1024 + 1) + "\n"
    done = pyromq_here("send", "mixed", "-", "-n", servers.namesrv, "--queue", "0", text=text)
    assert len(done.stdout.splitlines()) == 1
    line = one_line_error(done)
    assert line.startswith("pyromq: line 2: ")
    assert line.endswith("; 1 message was sent")


def test_a_body_that_is_not_utf_8_is_sent_as_it_is(servers: Servers) -> None:
    assert pyromq_here("send", "raw", "\udcff\udcfe", "-n", servers.namesrv).returncode == 0
    tailed = pyromq_here("tail", "raw", "-n", servers.namesrv, "--from", "earliest", "--count", "1", "--json")
    assert json.loads(tailed.stdout)["body"] == "//4="
