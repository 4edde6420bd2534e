"""`pyromq transaction` against a real broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from pyromq import UNKNOWN, Message, MessageExt, TransactionProducer, TransactionState
from pyromq.testing import LocalCluster
from tests.cli.conftest import pyromq_here


async def unknown(message: MessageExt) -> TransactionState:
    return UNKNOWN


async def leave_open(cluster: LocalCluster) -> None:
    """Leave one transaction that was given up, and one that waits."""
    async with TransactionProducer("payers", cluster.namesrv, check=unknown, clock=cluster.clock) as producer:
        await producer.send_in_transaction(Message(topic="orders", body=b"old", keys=["o-1"]), unknown)
        await cluster.clock.advance_async(seconds=130)  # asked once, and given up a minute later
        await producer.send_in_transaction(Message(topic="orders", body=b"young", keys=["o-2"]), unknown)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(settings={"transactionCheckMax": 1}) as running:
        asyncio.run(leave_open(running))
        yield running


def listed(cluster: LocalCluster, *options: str) -> list[tuple[str, str, str, int]]:
    done = pyromq_here("transaction", "list", "-n", cluster.namesrv, "--json", *options)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [(one["state"], one["keys"][0], one["producer_group"], one["checks"]) for one in found]


def test_list_shows_what_waits_and_what_was_given_up(cluster: LocalCluster) -> None:
    pending, given_up = ("pending", "o-2", "payers", 0), ("given up", "o-1", "payers", 1)
    assert listed(cluster) == [pending, given_up]
    assert listed(cluster, "--pending") == [pending]
    assert listed(cluster, "--given-up") == [given_up]
    assert listed(cluster, "--group", "others") == []
    text = pyromq_here("transaction", "list", "-n", cluster.namesrv)
    assert "given up" in text.stdout
    empty = pyromq_here("transaction", "list", "-n", cluster.namesrv, "--group", "others")
    assert empty.stdout == "every transaction has ended\n"


def test_resume_has_producers_asked_again(cluster: LocalCluster) -> None:
    dry = pyromq_here("transaction", "resume", "--all", "--dry-run", "-n", cluster.namesrv)
    assert (dry.returncode, dry.stdout.count("would resume")) == (0, 1)
    done = pyromq_here("transaction", "resume", "--all", "-n", cluster.namesrv)
    assert (done.returncode, done.stdout.count("resumed")) == (0, 1), done.stderr
    assert [(state, key) for state, key, *_ in listed(cluster)] == [("pending", "o-2"), ("pending", "o-1")]
    wrong = pyromq_here("transaction", "resume", "nonsense", "-n", cluster.namesrv)
    assert wrong.returncode == 1
    assert "nonsense" in wrong.stderr
    assert pyromq_here("transaction", "resume", "-n", cluster.namesrv).returncode == 2
