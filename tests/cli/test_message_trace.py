"""`pyromq message trace`, as users run it."""

from __future__ import annotations

import json
import threading

from pyromq import Message, blocking
from pyromq.protocol.messages.message import MessageExt
from tests.cli.conftest import Servers, one_line_error, pyromq_here


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
    """Take so many messages, with traces."""
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
