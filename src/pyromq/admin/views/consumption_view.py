"""The JSON of who consumed a message, and of a message that one consumer handled on request."""

from __future__ import annotations

from typing import Any

from pyromq.admin.messages.consumption import GroupConsumption
from pyromq.admin.messages.direct_consumption import DirectPlan, DirectResult


def consumption_fields(consumption: GroupConsumption) -> dict[str, Any]:
    """Return the fields of what became of a message in one group."""
    return {
        "group": consumption.group,
        "state": consumption.state.value,
        "members": consumption.members,
        "committed_offset": consumption.committed_offset,
        "remark": consumption.remark,
    }


def direct_plan_fields(plan: DirectPlan) -> dict[str, Any]:
    """Return the fields of what a consumer would handle."""
    return {
        "message_id": plan.message.message_id,
        "topic": plan.message.topic,
        "group": plan.group,
        "client_id": plan.client_id,
        "language": plan.language,
    }


def direct_result_fields(result: DirectResult) -> dict[str, Any]:
    """Return the fields of what a consumer did with a message."""
    return {
        "message_id": result.message_id,
        "group": result.group,
        "client_id": result.client_id,
        "result": result.result,
        "succeeded": result.succeeded,
        "orderly": result.orderly,
        "auto_commit": result.auto_commit,
        "seconds": result.seconds,
        "remark": result.remark,
    }
