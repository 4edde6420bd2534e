"""`pyromq message` as users run it: pending, cancel and trace."""

from __future__ import annotations

import json
import threading
from datetime import datetime, timedelta

import pytest

from pyromq import Message, blocking
from pyromq.protocol.messages.message import MessageExt
from pyromq.testing import wait_until
from tests.cli.conftest import Servers, one_line_error, pyromq_here


def test_a_delayed_message_is_listed_and_cancelled(servers: Servers) -> None:
    later = datetime.now() + timedelta(hours=3)
    for options in (("--delay", "2h"), ("--at", later.isoformat())):
        assert pyromq_here("send", "later", "body", "-n", servers.namesrv, "--key", "k-1", *options).returncode == 0
    listed = pyromq_here("message", "pending", "-n", servers.namesrv, "--topic", "later", "--json")
    first, second = [json.loads(line) for line in listed.stdout.splitlines()]
    assert first["deliver_timestamp"] < second["deliver_timestamp"]
    assert (first["topic"], first["body"], first["keys"]) == ("later", "body", ["k-1"])
    assert "queue_offset" not in first
    tried = pyromq_here("message", "cancel", first["message_id"], "--dry-run", "-n", servers.namesrv)
    assert tried.stdout == f"would cancel {first['message_id']} on broker-a\n"
    done = pyromq_here("message", "cancel", first["message_id"], "-n", servers.namesrv)
    assert done.stdout == f"cancelled {first['message_id']} on broker-a\n"
    again = pyromq_here("message", "cancel", first["message_id"], "-n", servers.namesrv)
    assert first["message_id"] in one_line_error(again)
    assert pyromq_here("message", "cancel", second["offset_message_id"], "-n", servers.namesrv).returncode == 0
    rest = pyromq_here("message", "pending", "-n", servers.namesrv, "--topic", "later")
    assert (rest.returncode, rest.stdout) == (0, "")


def test_a_short_delay_is_over_soon(servers: Servers) -> None:
    assert pyromq_here("send", "soon", "body", "-n", servers.namesrv, "--delay", "300ms").returncode == 0
    tail = pyromq_here("tail", "soon", "-n", servers.namesrv, "--from", "earliest", "--count", "1", "--json")
    message = json.loads(tail.stdout)
    assert message["properties"]["TIMER_DELAY_MS"] == "300"


def test_inspect_counts_what_waits_for_a_time(servers: Servers) -> None:
    assert pyromq_here("send", "inspected", "body", "-n", servers.namesrv, "--delay", "2h").returncode == 0

    def is_counted() -> bool:
        shown = pyromq_here("store", "inspect", str(servers.data), "--json")
        return bool(json.loads(shown.stdout.splitlines()[0])["pending_timed"] >= 1)

    wait_until(is_counted)  # a running broker writes the entries of queues within a second


@pytest.mark.parametrize(
    "options", [("--delay", "soon"), ("--delay", "10"), ("--at", "noon"), ("--delay", "1s", "--at", "2026-12-24")]
)
def test_a_time_that_is_none_is_wrong_usage(options: tuple[str, ...]) -> None:
    assert pyromq_here("send", "later", "body", *options).returncode == 2


def test_a_trace_shows_the_send_and_who_consumed(servers: Servers) -> None:
    with blocking.Producer("shop", servers.namesrv, trace=True) as producer:
        sent = producer.send(Message(topic="traced", body=b"x", tags="created", keys=["o-1"]))
        other = producer.send(Message(topic="traced", body=b"x", keys=["o-1", "[red]o-2"]))
    consume(servers, 2)
    shown = pyromq_here("message", "trace", sent.message_id, "-n", servers.namesrv, "--json")
    first, second = [json.loads(line) for line in shown.stdout.splitlines()]
    assert (first["event"], first["group"], first["topic"], first["keys"]) == ("send", "shop", "traced", ["o-1"])
    assert (first["broker_address"], first["success"]) == (servers.broker, True)
    assert first["timestamp"].endswith("Z")
    assert (second["event"], second["group"], second["status"]) == ("consume", "billing", "SUCCESS")
    assert second["message_id"] == sent.message_id
    by_key = pyromq_here("message", "trace", "--key", "o-1", "-n", servers.namesrv, "--json")
    ids = [json.loads(line)["message_id"] for line in by_key.stdout.splitlines()]
    assert sorted(ids) == sorted([sent.message_id, other.message_id] * 2)
    table = pyromq_here("message", "trace", other.message_id, "-n", servers.namesrv).stdout
    assert "o-1 [red]o-2" in table
    assert "SUCCESS" in table


def consume(servers: Servers, count: int) -> None:
    """Consume this many messages, with traces."""
    taken = threading.Semaphore(0)

    def listen(message: MessageExt) -> None:
        taken.release()

    with blocking.PushConsumer("billing", servers.namesrv, {"traced": "*"}, listen, start_from="earliest", trace=True):
        for _ in range(count):
            assert taken.acquire(timeout=30)


def test_what_has_no_trace_is_an_error_in_one_line(servers: Servers) -> None:
    with blocking.Producer("shop", servers.namesrv, trace=True) as producer:
        producer.send(Message(topic="traced-too", body=b"x"))
    assert "no traces of message 0A" in one_line_error(pyromq_here("message", "trace", "0A", "-n", servers.namesrv))
    unknown = pyromq_here("message", "trace", "0A", "-n", servers.namesrv, "--trace-topic", "nowhere")
    assert "nowhere" in one_line_error(unknown)


def test_either_an_id_or_a_key_is_given() -> None:
    assert pyromq_here("message", "trace").returncode == 2
    assert pyromq_here("message", "trace", "0A", "--key", "k").returncode == 2
