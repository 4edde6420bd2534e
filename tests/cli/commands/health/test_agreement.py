"""Two queues stalled on purpose: `group describe`, `top`, `check` and /metrics agree to the message and the second."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator

import httpx
import pytest

from pyromq import Message, MessageExt, MessageQueue, blocking
from tests.cli.conftest import Servers, pyromq_here

COUNTS = (7, 4)
LAG = sum(COUNTS)


@pytest.fixture(scope="module")
def stalled(servers: Servers) -> Iterator[Servers]:
    """A member holds the first message of each of two queues."""
    gate = threading.Event()
    busy = threading.Semaphore(0)

    def listen(message: MessageExt) -> None:
        busy.release()
        gate.wait(120)

    assert pyromq_here("topic", "create", "stalled", "--queues", "2", "-n", servers.namesrv).returncode == 0
    with blocking.Producer("shop", servers.namesrv) as producer:
        for queue, count in enumerate(COUNTS):
            for number in range(count):
                place = MessageQueue("stalled", "broker-a", queue)
                producer.send(Message(topic="stalled", body=b"%d" % number), queue=place)
    with blocking.PushConsumer("late", servers.namesrv, {"stalled": "*"}, listen, start_from="earliest"):
        for _ in COUNTS:
            assert busy.acquire(timeout=60)
        yield servers
        gate.set()


def described(servers: Servers) -> tuple[int, float]:
    done = pyromq_here("group", "describe", "late", "--watch", "0s", "--json", "-n", servers.namesrv)
    found = json.loads(done.stdout)
    assert [queue["lag"] for queue in found["queues"] if queue["topic"] == "stalled"] == list(COUNTS)
    return found["lag"], found["behind_seconds"]


def shown_by_top(servers: Servers) -> tuple[int, float]:
    groups = json.loads(pyromq_here("top", "--json", "-n", servers.namesrv).stdout)["groups"]
    late = next(group for group in groups if group["group"] == "late")
    return late["lag"], late["behind_seconds"]


def checked(servers: Servers) -> tuple[int, float]:
    limits = ("--lag", "1", "--lag-seconds", "100000", "--group", "late")
    done = pyromq_here("check", *limits, "--json", "-n", servers.namesrv)
    assert done.returncode == 2
    values = {check["check"]: check["value"] for check in json.loads(done.stdout)["checks"]}
    return int(values["lag"]), values["lag_seconds"]


def measured(servers: Servers) -> tuple[int, float]:
    page = httpx.get(f"{servers.console}/metrics", timeout=30, trust_env=False).text
    found = []
    for name in ("pyromq_group_lag_messages", "pyromq_group_lag_seconds"):
        values = re.findall(rf'^{name}\{{[^}}]*group="late"[^}}]*topic="stalled"[^}}]*\}} (\S+)', page, re.MULTILINE)
        assert len(values) == 1, page
        found.append(float(values[0]))
    return int(found[0]), found[1]


def test_all_views_agree(stalled: Servers) -> None:
    readers = (described, shown_by_top, checked, measured)
    first_lag, first_age = described(stalled)
    found = {reader.__name__: reader(stalled) for reader in readers}
    last_lag, last_age = described(stalled)
    assert first_lag == last_lag == LAG
    assert {lag for lag, _ in found.values()} == {LAG}
    assert all(first_age - 1 <= age <= last_age + 1 for _, age in found.values()), (first_age, found, last_age)
