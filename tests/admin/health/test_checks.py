"""Limits, and what a cluster is found to be."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyromq.admin import BrokerLoad, BrokerStatus, CheckLimits, ClusterStatus, GroupLoad, Level, Limit, Overview
from pyromq.admin.health.checks import judge
from pyromq.errors import ClientError, GroupNotFound
from pyromq.protocol.bodies import MessageModel
from pyromq.protocol.bodies.replication import BrokerProblem


def group(name: str = "billing", lag: int = 0, behind: float = 0.0, dead_letters: int = 0) -> GroupLoad:
    return GroupLoad(
        group=name, members=1, model=MessageModel.CLUSTERING, lag=lag, behind=behind, rate=0, gets=0,
        dead_letters=dead_letters,
    )  # fmt: skip


def overview(*groups: GroupLoad, disk: float = 40.0, silent: dict[str, str] | None = None) -> Overview:
    broker = BrokerLoad(
        name="broker-a", address="a:1", version="", put_rate=0, get_rate=0, puts=0, gets=0, disk_percent=disk,
        log_bytes=0,
    )  # fmt: skip
    return Overview(at=0, brokers=(broker,), topics=(), groups=groups, silent_brokers=silent or {})


def status(*findings: str, silence: str = "") -> ClusterStatus:
    one = BrokerStatus(cluster="c", name="broker-a", broker_id=0, address="a:1", role="ASYNC_MASTER", silence=silence)
    return ClusterStatus(brokers=(one,), findings=findings)


@pytest.mark.parametrize(
    ("text", "limit"),
    [("10", Limit(None, 10)), ("5:10", Limit(5, 10)), ("5:", Limit(5, None)), (":10", Limit(None, 10))],
)
def test_a_limit_is_critical_or_a_warning_and_critical(text: str, limit: Limit) -> None:
    assert Limit.parse(text) == limit


@pytest.mark.parametrize("text", ["", ":", "x", "10:5", "-1", "nan", "inf", "1:2:3"])
def test_other_texts_are_no_limits(text: str) -> None:
    with pytest.raises(ClientError, match="limit"):
        Limit.parse(text)


def test_a_value_that_reaches_the_limit_counts() -> None:
    limit = Limit(5, 10)
    assert [limit.level(value) for value in (4.9, 5, 9.9, 10)] == [
        Level.OK,
        Level.WARNING,
        Level.WARNING,
        Level.CRITICAL,
    ]


def test_all_is_well() -> None:
    report = judge(overview(group()), status(), CheckLimits(lag=Limit(1, 2)))
    assert (report.level, report.brokers, report.groups) == (Level.OK, 1, 1)
    assert [result.name for result in report.results] == ["silent_brokers", "disk", "lag"]


def test_the_worst_group_decides() -> None:
    groups = group("small", lag=1), group("big", lag=70, behind=3.5, dead_letters=2)
    limits = CheckLimits(lag=Limit(10, 100), lag_seconds=Limit(None, 3), dead_letters=Limit(3, None))
    report = judge(overview(*groups), status(), limits)
    found = {result.name: (result.level, result.text) for result in report.results}
    assert found["lag"] == (Level.WARNING, "big has 70 waiting")
    assert found["lag_seconds"] == (Level.CRITICAL, "big is 4 s behind")
    assert found["dead_letters"] == (Level.OK, "big has 2 dead letters")
    assert report.level is Level.CRITICAL


def test_only_the_named_groups_count() -> None:
    groups = group("small", lag=1), group("big", lag=70)
    limits = CheckLimits(lag=Limit(None, 10))
    assert judge(overview(*groups), status(), limits, ["small"]).level is Level.OK
    with pytest.raises(GroupNotFound, match="'none'"):
        judge(overview(*groups), status(), limits, ["none"])


def test_a_group_of_rocketmqs_own_counts_only_if_named() -> None:
    own = group("TOOLS_CONSUMER", lag=99)
    limits = CheckLimits(lag=Limit(None, 10))
    assert judge(overview(own), status(), limits).level is Level.OK
    assert judge(overview(own), status(), limits, ["TOOLS_CONSUMER"]).level is Level.CRITICAL


def test_a_full_disk_and_a_silent_broker_are_found_without_options() -> None:
    assert judge(overview(disk=90), status(), CheckLimits()).level is Level.WARNING
    assert judge(overview(disk=95), status(), CheckLimits()).level is Level.CRITICAL
    report = judge(overview(silent={"broker-a": "away"}), status(silence="away"), CheckLimits())
    assert (report.level, report.results[0].value) == (Level.CRITICAL, 1)


@pytest.mark.parametrize(
    ("problem", "level"),
    [
        (BrokerProblem(cause="disk_full", text="the disk is full", stops_messages=True), Level.CRITICAL),
        (BrokerProblem(cause="writes_paused", text="writes are paused", stops_messages=True), Level.WARNING),
        (BrokerProblem(cause="clock_jumped", text="the date moved"), Level.WARNING),
    ],
)
def test_a_broker_that_takes_no_messages_is_critical(problem: BrokerProblem, level: Level) -> None:
    found = status(f"the master of broker-a at a:1: {problem.text}; free some")
    ill = replace(found, brokers=(replace(found.brokers[0], problems=(problem,)),))
    report = judge(overview(), ill, CheckLimits())
    assert (report.level, report.results[-1].text) == (level, f"the master of broker-a: {problem.text}")
    assert judge(overview(), status("broker-b has no master: it takes no messages"), CheckLimits()).level == 2


def test_what_else_is_wrong_is_a_warning() -> None:
    report = judge(overview(), status("broker-b has no master", "x does not answer: y"), CheckLimits())
    assert (report.level, report.results[-1].text) == (Level.WARNING, "broker-b has no master")
