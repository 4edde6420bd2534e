"""Checks for monitoring systems: the overview and the cluster's status against limits, and one line about them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import TypeVar

from msgspec import Struct

from pyromq.admin.clusters import ClusterStatus
from pyromq.admin.health.overview import GroupLoad, Overview
from pyromq.errors import ClientError, GroupNotFound

T = TypeVar("T")


class Level(IntEnum):
    """How bad it is; the numbers are the exit codes of monitoring plugins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2


class Limit(Struct, frozen=True):
    """From which values on something is a warning, or critical."""

    warning: float | None = None
    critical: float | None = None

    @classmethod
    def parse(cls, text: str) -> Limit:
        """Read `CRITICAL` or `WARNING:CRITICAL`; one of the two may be empty. Raises ClientError."""
        first, colon, second = text.partition(":")
        warning, critical = (first, second) if colon else ("", first)
        try:
            limit = cls(_limit_number(warning), _limit_number(critical))
        except ValueError:
            limit = cls()
        if limit == cls():
            raise ClientError(f"a limit is CRITICAL or WARNING:CRITICAL, two numbers, not {text!r}")
        if limit.warning is not None and limit.critical is not None and limit.warning > limit.critical:
            raise ClientError(f"the limit of a warning is above the critical one: {text}")
        return limit

    def level(self, value: float) -> Level:
        """Return how bad a value is."""
        if self.critical is not None and value >= self.critical:
            return Level.CRITICAL
        return Level.WARNING if self.warning is not None and value >= self.warning else Level.OK


def _limit_number(text: str) -> float | None:
    if not text:
        return None
    number = float(text)
    if not 0 <= number < float("inf"):
        raise ValueError(text)
    return number


class CheckLimits(Struct, frozen=True, kw_only=True):
    """What is checked; None checks nothing."""

    lag: Limit | None = None
    """Messages that wait for a group."""
    lag_seconds: Limit | None = None
    """Age of the first message that waits for a group."""
    disk: Limit | None = Limit(85, 95)
    """How full the disk of a broker is, in percent."""
    dead_letters: Limit | None = None
    """Dead letters of a group."""
    silent_brokers: Limit | None = Limit(None, 1)
    """Brokers that do not answer."""


class CheckResult(Struct, frozen=True, kw_only=True):
    """One check: the worst value that was found."""

    name: str
    level: Level
    value: float
    limit: Limit | None
    unit: str = ""
    text: str
    """What was found, in a few words."""


class CheckReport(Struct, frozen=True, kw_only=True):
    """All checks."""

    results: tuple[CheckResult, ...]
    brokers: int
    groups: int

    @property
    def level(self) -> Level:
        """The worst of all."""
        return max((result.level for result in self.results), default=Level.OK)


DEFAULT_LIMITS = CheckLimits()
PAUSED = "writes_paused"
"""The problem of a broker whose writes an operator paused."""

_DISK = "disk of {0.name} {1:g}% full"
_LAG = "{0.group} has {1:,.0f} waiting"
_LAG_SECONDS = "{0.group} is {1:,.0f} s behind"
_DEAD_LETTERS = "{0.group} has {1:,.0f} dead letters"


def judge(overview: Overview, status: ClusterStatus, limits: CheckLimits, groups: Collection[str] = ()) -> CheckReport:
    """Compare a cluster with limits, with all groups or some; raises GroupNotFound if there is no such group."""
    chosen = _chosen(overview.groups, groups)
    results = [
        *_silence(overview, status, limits.silent_brokers),
        *_worst("disk", "%", limits.disk, overview.brokers, lambda one: one.disk_percent, _DISK),
        *_worst("lag", "", limits.lag, chosen, lambda one: one.lag, _LAG),
        *_worst("lag_seconds", "s", limits.lag_seconds, chosen, lambda one: one.behind, _LAG_SECONDS),
        *_worst("dead_letters", "", limits.dead_letters, chosen, lambda one: one.dead_letters, _DEAD_LETTERS),
        *_findings(status),
    ]
    return CheckReport(results=tuple(results), brokers=len(status.brokers), groups=len(chosen))


def _chosen(groups: Sequence[GroupLoad], names: Collection[str]) -> list[GroupLoad]:
    if not names:
        return [group for group in groups if not group.is_built_in]
    known = {group.group: group for group in groups}
    for name in names:
        if name not in known:
            raise GroupNotFound(f"no broker knows the group {name!r}")
    return [known[name] for name in names]


def _silence(overview: Overview, status: ClusterStatus, limit: Limit | None) -> Iterator[CheckResult]:
    if limit is None:
        return
    silent = dict.fromkeys(one.title for one in status.brokers if one.silence)
    masters = {one.name for one in status.brokers if one.silence and one.is_master}
    silent |= dict.fromkeys(f"the master of {name}" for name in overview.silent_brokers if name not in masters)
    yield CheckResult(
        name="silent_brokers",
        level=limit.level(len(silent)),
        value=len(silent),
        limit=limit,
        text=f"{', '.join(silent)} not answering" if silent else "all brokers answer",
    )


def _worst(
    name: str,
    unit: str,
    limit: Limit | None,
    rows: Iterable[T],
    value_of: Callable[[T], float | None],
    text: str,
) -> Iterator[CheckResult]:
    """Yield the result of the row with the highest value."""
    if limit is None:
        return
    known = [(value, row) for row in rows if (value := value_of(row)) is not None]
    value, worst = max(known, key=lambda pair: pair[0], default=(0.0, None))
    words = text.format(worst, value) if worst is not None else f"{name.replace('_', ' ')} 0"
    yield CheckResult(name=name, level=limit.level(value), value=round(value, 3), limit=limit, unit=unit, text=words)


def _findings(status: ClusterStatus) -> Iterator[CheckResult]:
    """Yield what else is wrong: critical if a broker takes no messages, unless an operator paused it."""
    stopped = [
        f"{one.title}: {problem.text}"
        for one in status.brokers
        for problem in one.problems
        if problem.stops_messages and problem.cause != PAUSED
    ]
    stopped += [finding for finding in status.findings if finding.endswith(": it takes no messages")]
    others = [
        finding
        for finding in status.findings
        if "does not answer" not in finding and finding not in stopped and not _is_about(finding, status)
    ]
    others += [
        f"{one.title}: {problem.text}"
        for one in status.brokers
        for problem in one.problems
        if not problem.stops_messages or problem.cause == PAUSED
    ]
    for name, level, texts in (("stopped", Level.CRITICAL, stopped), ("cluster", Level.WARNING, others)):
        if texts:
            words = "; ".join(dict.fromkeys(texts))
            yield CheckResult(name=name, level=level, value=len(texts), limit=None, text=words)


def _is_about(finding: str, status: ClusterStatus) -> bool:
    """Return True if a finding repeats what a broker says about itself."""
    return any(problem.text in finding for one in status.brokers for problem in one.problems)
