"""The clock rule: servers, clients and stores take time from an injected Clock, so that tests can move it.

Durations, deadlines and expiries use `Clock.monotonic`: setting the machine's date must not stop or hurry anything. A
module that reads the date is listed here, with the point in time that it stores, shows or compares with a stored one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "pyromq"
PACKAGES = ("remoting", "namesrv", "broker", "client", "store")

FORBIDDEN = {
    "asyncio.sleep",
    "asyncio.timeout",
    "asyncio.timeout_at",
    "asyncio.wait_for",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "datetime.date.today",
    "threading.Timer",
    "time.clock_gettime",
    "time.clock_gettime_ns",
    "time.monotonic",
    "time.monotonic_ns",
    "time.sleep",
    "time.time",
    "time.time_ns",
}  # time.perf_counter is free: it measures, and decides nothing
TIMERS = {"call_later", "call_at"}
CLOCKS = {"clock", "_clock"}
DATES = {"now", "now_ms"}

READS_THE_DATE = {
    "admin/groups/groups.py": "how old the first unread message is, for people",
    "admin/health/overview.py": "how old the first unread message is, and how far clocks differ",
    "admin/letters/dead_letters.py": "how long until a dead letter expires, for people",
    "admin/messages/lookup.py": "the month in which a client made an id",
    "admin/support/bundle.py": "the date in the name of an archive",
    "admin/timed_messages.py": "when waiting messages are due, for people",
    "broker/delay/levels/delay_level.py": "when a stored message is due",
    "broker/delay/timer/message_timer.py": "when a stored message is due",
    "broker/delay/timer/timer_delivery.py": "when a stored message is due",
    "broker/messages/dead_letter_watch.py": "the age of a stored message",
    "broker/messages/plain_sends.py": "when a message is stored",
    "broker/messages/reply.py": "properties of a reply",
    "broker/pulls/offset_moved_events.py": "a message's time of birth",
    "broker/pulls/quick_pulls.py": "how old a signed request is, by the client's clock",
    "broker/replication/failover/coordinator.py": "when this broker was elected",
    "broker/replication/handover/taking_over.py": "when masters changed, for people",
    "broker/server.py": "the times of stored messages, and versions of tables",
    "broker/sides/read_only.py": "versions of tables",
    "broker/sides/read_side.py": "the day of a count",
    "broker/sides/service.py": "the day of a count",
    "broker/stats/group_lag.py": "the age of a stored message",
    "broker/stats/runtime_info.py": "when the broker started, for people",
    "broker/tools/account_admin.py": "when a file of accounts was changed, as RocketMQ notes it",
    "broker/tools/activity.py": "the date itself, for peers that compare clocks",
    "broker/tools/consume_progress.py": "the age of a stored message, for people",
    "broker/transactions/open_transactions.py": "the time of a stored message",
    "broker/transactions/state_checks.py": "the age of a stored half message",
    "client/group/ownership.py": "when a queue was last consumed, for people",
    "client/net/broker_requests.py": "when a reply arrived",
    "client/poll/lite_pull_consumer.py": "when the caller last polled, for people",
    "client/poll/poll_session.py": "when the consumer started, and versions of subscriptions",
    "client/push/consumption.py": "when a queue was last consumed or blocked, for people",
    "client/push/push_consumer.py": "the version of a subscription",
    "client/push/push_session.py": "when the consumer started, and versions of subscriptions",
    "client/send/fast_send.py": "a message's time of birth",
    "client/send/linger.py": "the time of birth in the id of a message",
    "client/send/prepare.py": "a message's time of birth",
    "client/send/producer.py": "the month of a message id",
    "client/trace/client_metrics.py": "the age of a stored message",
    "client/trace/trace_hooks.py": "the times of trace records",
    "remoting/audit/audit_trail.py": "when a change was made, for people",
    "remoting/connection.py": "compared with startAcceptSendRequestTimeStamp, which an operator sets",
    "remoting/tls/server_tls.py": "from when on a certificate for tests is valid",
    "spark/read/brokers/broker_connection.py": "the time in a signed request",
    "spark/write/batch_sender.py": "a message's time of birth",
}


def imported_names(tree: ast.AST) -> dict[str, str]:
    """Return what each imported name stands for: `from time import sleep as nap` gives nap -> time.sleep."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name.split(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def dotted(node: ast.AST) -> str:
    """Return `a.b.c` for such an expression; a call or index in it becomes a question mark."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def violations(text: str) -> Iterator[str]:
    """Yield each use of time that does not go through a clock, mentioned or called."""
    tree = ast.parse(text)
    names = imported_names(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute | ast.Name):
            continue
        first, *rest = dotted(node).split(".")
        full = ".".join([names.get(first, first), *rest])
        timer = bool(rest) and rest[-1] in TIMERS and ([first, *rest][-2] not in CLOCKS)
        if timer or full in FORBIDDEN or full.endswith("loop.time"):
            yield f"line {node.lineno}: {full}"


def reads_the_date(text: str) -> bool:
    """Return True if a module asks a clock for the date, or passes on the function that does."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in DATES and dotted(node).split(".")[-2] in CLOCKS:
            return True
    return False


def modules(packages: Sequence[str] = PACKAGES) -> list[Path]:
    return sorted(path for package in packages for path in (SOURCE / package).rglob("*.py"))


def test_time_comes_from_the_clock() -> None:
    found = [f"{path.relative_to(SOURCE)} {item}" for path in modules() for item in violations(path.read_text())]
    assert found == []


def test_only_points_in_time_come_from_the_date() -> None:
    found = [path for path in modules((*PACKAGES, "admin", "spark")) if reads_the_date(path.read_text())]
    assert [str(path.relative_to(SOURCE)) for path in found] == sorted(READS_THE_DATE), (
        "use clock.monotonic() for durations; list a module that needs the date, with the reason"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("deadline = self._clock.now() + 3", True),
        ("born_ms = clock.now_ms()", True),
        ("table = Tables(self._clock.now_ms)", True),
        ("deadline = self._clock.monotonic() + 3", False),
        ("now_ms = self._now_ms()", False),
    ],
)
def test_the_rule_knows_what_reads_the_date(text: str, expected: bool) -> None:
    assert reads_the_date(text) is expected


def test_the_rule_looks_at_all_packages() -> None:
    assert {path.relative_to(SOURCE).parts[0] for path in modules()} == set(PACKAGES)


@pytest.mark.parametrize(
    "bad",
    [
        "import asyncio\nasync def f():\n    await asyncio.sleep(1)",
        "import asyncio\nasync def f():\n    async with asyncio.timeout(1): pass",
        "import asyncio\nasync def f():\n    await asyncio.wait_for(f(), 1)",
        "from asyncio import wait_for\nasync def f():\n    await wait_for(f(), 1)",
        "from asyncio import sleep as nap\nasync def f():\n    await nap(1)",
        "import time\nx = time.time()",
        "import time as t\nx = t.monotonic()",
        "from time import time_ns\nx = time_ns()",
        "import time\nnow = time.time  # kept for later",
        "from datetime import datetime\nx = datetime.now()",
        "import datetime\nx = datetime.datetime.now()",
        "import asyncio\nasyncio.get_running_loop().call_later(1, print)",
        "self._loop.call_at(1, print)",
        "later = loop.call_later",
        "x = self._loop.time()",
    ],
)
def test_the_rule_can_fail(bad: str) -> None:
    assert len(list(violations(bad))) == 1


@pytest.mark.parametrize(
    "good",
    [
        "from pyromq.clock import wait_for\nasync def f(clock):\n    await wait_for(clock, f(clock), 1)",
        "self._clock.call_later(1, print)",
        "async def f(clock):\n    await clock.sleep(1)",
        "import time\nx = time.perf_counter_ns()",
        "x = record.time",
    ],
)
def test_the_rule_lets_clocks_pass(good: str) -> None:
    assert list(violations(good)) == []
