"""Unfinished work when a store changes brokers: delayed messages, retries, half messages, dead letters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.peer import JavaConsumer, Peer
from interop.servers import Broker, Kind, NameServer, free_port
from interop.toolkit import Toolkit

TOPIC = "handed-over"
TEN_SECONDS = 13  # the delay level, see SETTINGS
PATIENT = {"transactionCheckInterval": "60000", "transactionTimeOut": "60000"}


@pytest.fixture(scope="module")
def namesrv(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Apache's name server, for our broker too."""
    with NameServer("apache", toolkit, tmp_path_factory.mktemp("namesrv")) as server:
        yield server.address


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("kinds", [("apache", "pyromq"), ("pyromq", "apache")], ids="-then-".join)
def test_the_next_broker_finishes_it(
    toolkit: Toolkit, tmp_path: Path, namesrv: str, java: Peer, kinds: tuple[Kind, Kind], kill: bool, name: str
) -> None:
    first, second = kinds
    port = free_port()
    with java.transactions(namesrv, name) as producer:
        with Broker(first, toolkit, tmp_path, namesrv, PATIENT, port) as broker:
            java.call("Sends.sync", namesrv=namesrv, topic=TOPIC, count=1, body="plain")
            sent_at = time.time()
            java.call("Sends.sync", namesrv=namesrv, topic=TOPIC, count=1, body="delayed", level=TEN_SECONDS)
            producer.send(TOPIC, 1, "UNKNOW", check="COMMIT_MESSAGE")
            producer.send(TOPIC, 2, "UNKNOW", check="ROLLBACK_MESSAGE")
            producer.send(TOPIC, 3, "COMMIT_MESSAGE")
            options = {"failures": 1, "retry_level": TEN_SECONDS}
            with java.push(namesrv, name, TOPIC, **options) as fails:
                seen = {fact["body"] for fact in fails.take(2)}
                assert seen == {"plain 0", "body 3"}
                time.sleep(1)  # for failed messages to be sent back
            if kill:
                broker.kill()
        with Broker(second, toolkit, tmp_path, namesrv, port=port), java.push(namesrv, name, TOPIC) as consumer:
            found = take_until(consumer, {("delayed 0", 0), ("body 1", 0), ("plain 0", 1), ("body 3", 1)})
            waited = time.time() - sent_at
    # A killed broker may have lost what the group committed in the last seconds.
    repeats = {("plain 0", 0), ("body 3", 0)} if kill else set()
    assert found <= repeats
    assert waited > 10


def take_until(consumer: JavaConsumer, wanted: set[tuple[str, int]]) -> set[tuple[str, int]]:
    """Wait for all wanted bodies and reconsume times; return what else arrived."""
    besides = set()
    missing = set(wanted)
    while missing:
        taken = consumer.take(1, seconds=60)
        assert taken, f"never came: {missing}"
        got = (taken[0]["body"], taken[0]["reconsume_times"])
        if got in missing:
            missing.remove(got)
        else:
            besides.add(got)
    return besides | {(fact["body"], fact["reconsume_times"]) for fact in consumer.rest()}
