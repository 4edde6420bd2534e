"""The JSON of overviews, checks and examinations."""

from __future__ import annotations

from typing import Any

from pyromq.admin.health.checks import CheckReport, CheckResult
from pyromq.admin.health.examination import DoctorStep
from pyromq.admin.health.overview import BrokerLoad, GroupLoad, Overview, TopicLoad
from pyromq.admin.views.iso_times import iso_time


def overview_fields(overview: Overview) -> dict[str, Any]:
    """Return brokers, topics and groups with their rates and lag."""
    return {
        "time": iso_time(int(overview.at * 1000)),
        "brokers": [broker_load_fields(one) for one in overview.brokers],
        "topics": [topic_load_fields(one) for one in overview.topics],
        "groups": [group_load_fields(one) for one in overview.groups],
        "silent_brokers": dict(overview.silent_brokers),
        "brokers_without_topics": list(overview.brokers_without_topics),
    }


def broker_load_fields(broker: BrokerLoad) -> dict[str, Any]:
    """Return how busy a broker is."""
    return {
        "broker_name": broker.name,
        "address": broker.address,
        "version": broker.version,
        "messages_in_per_second": round(broker.put_rate, 3),
        "messages_out_per_second": round(broker.get_rate, 3),
        "disk_percent": broker.disk_percent,
        "log_bytes": broker.log_bytes,
    }


def topic_load_fields(topic: TopicLoad) -> dict[str, Any]:
    """Return how busy a topic is."""
    return {
        "topic": topic.topic,
        "kind": topic.kind,
        "messages_in_per_second": round(topic.rate, 3),
        "bytes_in_per_second": None if topic.byte_rate is None else round(topic.byte_rate, 3),
        "messages_in": topic.puts,
        "bytes_in": topic.put_bytes,
    }


def group_load_fields(group: GroupLoad) -> dict[str, Any]:
    """Return how far a group is; the names are those of `group describe`."""
    return {
        "group": group.group,
        "model": group.model,
        "members": group.members,
        "lag": group.lag,
        "behind_seconds": None if group.behind is None else round(group.behind, 3),
        "messages_per_second": round(group.rate, 3),
        "dead_letters": group.dead_letters,
    }


def check_fields(report: CheckReport) -> dict[str, Any]:
    """Return the result of all checks."""
    return {
        "status": report.level.name,
        "brokers": report.brokers,
        "groups": report.groups,
        "checks": [_result_fields(result) for result in report.results],
    }


def _result_fields(result: CheckResult) -> dict[str, Any]:
    return {
        "check": result.name,
        "status": result.level.name,
        "value": result.value,
        "warning": result.limit.warning if result.limit else None,
        "critical": result.limit.critical if result.limit else None,
        "text": result.text,
    }


def step_fields(step: DoctorStep) -> dict[str, Any]:
    """Return one step of an examination."""
    return {"step": step.name, "status": step.status, "seen": step.seen, "advice": step.advice}
