"""`pyromq message find`, `show` and `consume`, as an operator uses them on a real cluster."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from subprocess import CompletedProcess
from typing import Any

import pytest

from pyromq import DeadLetter, Message, MessageExt, blocking
from pyromq.cli.commands import message
from pyromq.cli.show.message_output import BodyForm, message_as_lines
from pyromq.testing import LocalCluster, wait_until
from tests.cli.conftest import one_line_error, pyromq_here

COUNT = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A cluster with a topic of numbered JSON messages, each at a millisecond of its own."""
    with LocalCluster() as running:
        with blocking.Producer("shop", running.namesrv, clock=running.clock) as producer:
            for number in range(COUNT):
                producer.send(order(number))
                running.clock.advance(seconds=0.01)
        yield running


def order(number: int) -> Message:
    body = {"n": number, "amount": number * 1.5, "customer": {"name": f"c-{number % 3}"}}
    return Message(
        topic="orders",
        body=json.dumps(body).encode(),
        tags="paid" if number % 2 else "created",
        keys=[f"o-{number}", "popular"],
        properties={"n": str(number)},
    )


def command(cluster: LocalCluster, verb: str, *arguments: str, text: str = "") -> CompletedProcess[str]:
    return pyromq_here("message", verb, *arguments, "-n", cluster.namesrv, text=text)


def found(done: CompletedProcess[str]) -> list[int]:
    return [json.loads(json.loads(line)["body"])["n"] for line in done.stdout.splitlines()]


def find(cluster: LocalCluster, *arguments: str) -> list[int]:
    done = command(cluster, "find", "orders", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return found(done)


def details(cluster: LocalCluster, number: int) -> dict[str, Any]:
    (line,) = command(cluster, "find", "orders", "--key", f"o-{number}", "--json").stdout.splitlines()
    fields: dict[str, Any] = json.loads(line)
    return fields


# --- find


def test_find_by_key_time_tag_and_body(cluster: LocalCluster) -> None:
    assert find(cluster, "--key", "o-7") == [7]
    assert find(cluster, "--key", "popular", "--tag", "paid", "--body", "n > 24") == [29, 27, 25]
    assert find(cluster, "--body", "body.amount > 40 AND body.customer.name = 'c-1'") == [28]
    assert find(cluster, "--contains", '"n": 12,') == [12]
    begin, end = details(cluster, 4)["store_timestamp"], details(cluster, 6)["store_timestamp"]
    assert find(cluster, "--time", f"{begin}..{end}") == [6, 5, 4]
    assert find(cluster, "--time", f"{begin}..{end}", "--oldest-first") == [4, 5, 6]
    assert find(cluster, "--time", f"..{begin}") == [4, 3, 2, 1, 0]
    assert len(find(cluster, "--time", "1d")) == COUNT
    assert find(cluster, "--time", "2d..1d") == []


def test_find_by_id_of_either_kind(cluster: LocalCluster) -> None:
    first = details(cluster, 3)
    shown = json.loads(command(cluster, "show", first["message_id"], "--json").stdout)
    ids = ("--id", first["message_id"], "--id", shown["offset_message_id"])
    assert find(cluster, *ids) == [3, 3]
    error = one_line_error(command(cluster, "find", "orders", "--id", "7F00000100002A9F0000000000FFFFFF"))
    assert error == (
        "pyromq: no message of topic 'orders' has the id 7F00000100002A9F0000000000FFFFFF: "
        "it expired, or was never stored"
    )


def test_lines_for_people_begin_with_the_id(cluster: LocalCluster) -> None:
    done = command(cluster, "find", "orders", "--key", "o-7")
    assert done.stdout.startswith(details(cluster, 7)["message_id"])
    assert "[paid] o-7,popular" in done.stdout
    assert done.stderr == "1 found among 1 message looked at\n"
    done = command(cluster, "find", "orders", "--body", "body.n = 99")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"0 found among {COUNT} messages looked at\n")


def test_a_search_that_stops_says_where_and_goes_on_without_a_gap(cluster: LocalCluster) -> None:
    seen: list[int] = []
    options: list[str] = ["--body", "body.n >= 0"]
    for _ in range(COUNT):
        done = command(cluster, "find", "orders", *options, "--budget", "12", "--json")
        seen += found(done)
        if done.returncode == 0:
            break
        line = one_line_error(done)
        told = re.fullmatch(
            r"pyromq: stopped at (\S+): 12 messages were looked at; go on with (--time) (\.\.\S+)", line
        )
        assert told, line
        assert told[3] == f"..{told[1]}"
        options = ["--body", "body.n >= 0", told[2], told[3]]
    assert seen == list(range(COUNT))[::-1]
    forward = command(cluster, "find", "orders", "--tag", "*", "--oldest-first", "--budget", "12", "--json")
    assert found(forward) == list(range(12))
    assert re.search(r"go on with --time 20\S+Z\.\.$", one_line_error(forward))


def test_enough_found_is_no_failure(cluster: LocalCluster) -> None:
    done = command(cluster, "find", "orders", "--key", "popular", "--count", "2", "--json")
    assert (done.returncode, found(done)) == (0, [29, 28])
    assert re.fullmatch(r"stopped at \S+: 2 were found; go on with --time \.\.\S+\n", done.stderr)
    assert find(cluster, "--key", "popular", "--budget", "0", "--timeout", "0s") == list(range(COUNT))[::-1]


def test_an_interrupted_search_says_how_to_go_on(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []

    def interrupt(found: MessageExt, as_json: bool) -> None:
        seen.append(json.loads(found.body)["n"])
        task = asyncio.current_task()
        assert task is not None
        if len(seen) == 1:  # it is noticed when the next messages are read
            task.cancel()

    monkeypatch.setattr(message, "_print", interrupt)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(message._find(cluster.namesrv, lambda admin: admin.messages.find("orders"), False, True))
    told = re.fullmatch(r"stopped: go on with --time (\.\.\S+)\n", capsys.readouterr().err)
    assert told
    monkeypatch.undo()
    rest = find(cluster, "--time", told[1])
    assert sorted({*seen, *rest}) == list(range(COUNT))


def test_a_broker_that_cannot_be_searched_is_a_failure(cluster: LocalCluster) -> None:
    with blocking.AdminClient(cluster.namesrv) as admin:
        admin.topics.create("write-only", perm=2)
    with blocking.Producer("shop", cluster.namesrv) as producer:
        producer.send(Message(topic="write-only", body=b"x"))
    error = one_line_error(command(cluster, "find", "write-only", "--contains", "x"))
    assert "not all brokers could be searched, broker-a: " in error


def test_a_time_of_no_calendar_is_shown(cluster: LocalCluster) -> None:
    with blocking.AdminClient(cluster.namesrv) as admin:
        stored = admin.messages.get(details(cluster, 1)["message_id"], "orders")
    stored.born_timestamp_ms = 2**62
    lines = message_as_lines(stored, BodyForm.AUTO)
    assert any(line.endswith(f"4611686018427387904 ms at {stored.born_host}") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "say what to find"),
        (("--id", "x", "--key", "k"), "it needs no other condition"),
        (("--key", "k", "--oldest-first"), "--key finds the newest first"),
        (("--time", "noon"), "--time must be 10m, 2h (so long ago) or a time such as"),
        (("--time", ".."), "--time must be FROM, FROM..TO or ..TO"),
        (("--time", "10m..5q"), "--time must be"),
        (("--key", "k", "--timeout", "soon"), "--timeout must be a duration"),
    ],
)
def test_wrong_usage_is_exit_code_two(cluster: LocalCluster, arguments: tuple[str, ...], reason: str) -> None:
    done = command(cluster, "find", "orders", *arguments)
    assert done.returncode == 2
    assert reason in " ".join(re.sub("[│╭╮╰╯─]", " ", done.stderr).split())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--body", "body.n >"), "SQL92: expected a property, a literal or `(` at character 9, found the end"),
        (("--body", "body.n = 1 x"), "'x' at character 12 of 'body.n = 1 x' would be ignored; is an AND missing?"),
        (("--tag", "||"), "no tag in the expression '||'"),
        (("--time", "2026-01-02..2026-01-01"), "the time to search ends before it begins"),
        (("--key", ""), "a key is not empty"),
    ],
)
def test_a_wrong_search_is_one_line_and_exit_code_one(
    cluster: LocalCluster, arguments: tuple[str, ...], reason: str
) -> None:
    assert reason in one_line_error(command(cluster, "find", "orders", *arguments))


def test_a_topic_that_nobody_has_is_said_in_one_line(cluster: LocalCluster) -> None:
    for verb in (("find", "nowhere", "--key", "k"), ("show", "x", "--topic", "nowhere")):
        assert "no broker has the topic 'nowhere'" in one_line_error(command(cluster, *verb))


# --- show


def test_show_tells_all_and_who_consumed_it(cluster: LocalCluster) -> None:
    message_id = details(cluster, 5)["message_id"]

    def listen(message: MessageExt) -> None:
        if b'"n": 5,' in message.body:
            raise DeadLetter("never")

    with blocking.PushConsumer("books", cluster.namesrv, {"orders": "paid"}, listen, start_from="earliest"):

        def states() -> dict[str, str]:
            shown = json.loads(command(cluster, "show", message_id, "--json").stdout)
            return {row["group"]: row["state"] for row in shown["consumed_by"]}

        wait_until(lambda: states() == {"books": "dead letter"})
        text = command(cluster, "show", message_id, "--topic", "orders").stdout
    shown = json.loads(command(cluster, "show", message_id, "--json").stdout)
    assert shown["body_size"] == len(shown["body"])
    assert (shown["compressed"], shown["properties"]["n"]) == (False, "5")
    assert re.search(r"^message id +" + message_id, text, re.MULTILINE)
    assert re.search(r"^property +n = 5$", text, re.MULTILINE)
    assert '\n{\n  "n": 5,\n' in text, "the body is JSON and shown as such"
    assert re.search("books .*dead letter", text)


@pytest.mark.parametrize(
    ("body", "form", "shown"),
    [
        (b"plain\ntext \x1b[31m", "text", "plain\ntext \ufffd[31m"),
        (b"plain text", "auto", "plain text"),
        (b'[1, {"a": "\xc3\xa9"}]', "auto", '[\n  1,\n  {\n    "a": "é"\n  }\n]'),
        (b"7", "json", "7"),
        (b"\x00\xffab", "auto", f"{'00000000  00 ff 61 62':57}  ..ab"),
        (b"ab", "hex", f"{'00000000  61 62':57}  ab"),
        (b"x" * 20_000, "auto", "x" * 20_000),
    ],
)
def test_a_body_is_shown_in_its_form(cluster: LocalCluster, body: bytes, form: str, shown: str) -> None:
    with blocking.Producer("shop", cluster.namesrv) as producer:
        sent = producer.send(Message(topic="forms", body=body))
    done = command(cluster, "show", sent.message_id, "--topic", "forms", "--as", form)
    assert done.returncode == 0, done.stderr
    assert f"\n\n{shown}\n\nno group consumes its topic" in done.stdout
    assert ("compressed" in done.stdout) == (len(body) > 4096)


def test_a_body_that_is_no_json_is_not_shown_as_such(cluster: LocalCluster) -> None:
    with blocking.Producer("shop", cluster.namesrv) as producer:
        sent = producer.send(Message(topic="forms", body=b"{no"))
    error = one_line_error(command(cluster, "show", sent.message_id, "--topic", "forms", "--as", "json"))
    assert "the body is not JSON: show it with --as text or --as hex" in error


def test_show_of_an_id_that_nobody_has(cluster: LocalCluster) -> None:
    assert "no message of any topic has the id nonsense" in one_line_error(command(cluster, "show", "nonsense"))


# --- consume


def test_one_consumer_handles_a_message(cluster: LocalCluster) -> None:
    message_id = details(cluster, 8)["message_id"]
    seen: list[bytes] = []

    def listen(message: MessageExt) -> None:
        seen.append(message.body)
        if len(seen) == 3:
            raise ValueError("no more")

    with blocking.PushConsumer("direct", cluster.namesrv, {"orders": "never"}, listen) as consumer:
        who = (message_id, "--topic", "orders", "--group", "direct", "--client", consumer.client_id)
        planned = command(cluster, "consume", *who, "--dry-run")
        assert planned.stdout == f"client {consumer.client_id} (PYTHON) of direct would handle message {message_id}\n"
        assert "not confirmed" in one_line_error_after_question(command(cluster, "consume", *who, text="n\n"))
        assert seen == []
        done = command(cluster, "consume", *who, text="y\n")
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(
            rf"client \S+ handled message {message_id} within 0\.\d+ s: CR_SUCCESS", done.stdout.strip()
        )
        done = command(cluster, "consume", *who, "--yes", "--json")
        assert json.loads(done.stdout)["succeeded"] is True
        failed = command(cluster, "consume", *who, "--yes", "--json")
        assert json.loads(failed.stdout)["result"] == "CR_THROW_EXCEPTION"
        assert "ValueError: no more" in one_line_error(failed)
        wrong = command(cluster, "consume", message_id, "--group", "direct", "--client", "nobody", "--yes")
        assert "client nobody of group 'direct' is not connected to broker-a" in one_line_error(wrong)
        assert consumer.client_id in wrong.stderr
    assert len(seen) == 3


def one_line_error_after_question(done: CompletedProcess[str]) -> str:
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_consume_needs_a_group_and_a_client(cluster: LocalCluster) -> None:
    assert command(cluster, "consume", "x", "--group", "g").returncode == 2
    assert command(cluster, "consume", "x", "--client", "c").returncode == 2
