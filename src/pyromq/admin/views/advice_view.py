"""The JSON of advice for a group."""

from __future__ import annotations

from typing import Any

from pyromq.admin.groups.advice import GroupAdvice, MemberLoad

_DIGITS = 3


def advice_fields(advice: GroupAdvice) -> dict[str, Any]:
    """Return what a group should change, and what its members measured."""
    return {
        "group": advice.group,
        "bottleneck": advice.bottleneck,
        "reason": advice.reason,
        "lag": advice.lag,
        "arrivals_per_second": _rounded(advice.arrival_rate),
        "peak_per_second": _rounded(advice.peak_rate),
        "cores": advice.cores,
        "cpu_ms": _rounded(advice.cpu_ms),
        "wait_ms": _rounded(advice.wait_ms),
        "threads": advice.threads,
        "node_messages_per_second": _rounded(advice.node_rate),
        "nodes": advice.nodes,
        "queues": advice.queues,
        "members": [_member_fields(member) for member in advice.members],
        "findings": list(advice.findings),
        "silent_brokers": dict(advice.silent_brokers),
    }


def _member_fields(member: MemberLoad) -> dict[str, Any]:
    return {
        "client_id": member.client_id,
        "language": member.language,
        "threads": member.threads,
        "orderly": member.orderly,
        "queues": member.queues,
        "messages_per_second": _rounded(member.rate),
        "held": member.held,
        "cores": member.cores,
        "measured": member.measured,
        "cpu_ms": _rounded(member.cpu_ms),
        "wait_ms": _rounded(member.wait_ms),
        "busy": _rounded(member.busy),
        "cpu_share": _rounded(member.cpu_share),
        "rate_limit": member.rate_limit,
        "capacity_per_second": _rounded(member.capacity),
        "missing": member.missing,
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, _DIGITS)
