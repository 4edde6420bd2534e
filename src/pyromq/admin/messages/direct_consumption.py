"""Have one consumer handle one message now, in addition to all that it consumes anyway."""

from __future__ import annotations

from msgspec import Struct

from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.errors import ClientError
from pyromq.protocol.bodies import ConsumeMessageDirectlyResult, ConsumeResult
from pyromq.protocol.messages.message import MessageExt

_SUCCESSES = (ConsumeResult.CR_SUCCESS, ConsumeResult.CR_COMMIT)


class DirectPlan(Struct, frozen=True, kw_only=True):
    """Which consumer would handle which message."""

    message: MessageExt
    group: str
    client_id: str
    language: str
    address: str
    """The broker that passes it on."""


class DirectResult(Struct, frozen=True, kw_only=True):
    """What a consumer's listener did with a message."""

    message_id: str
    group: str
    client_id: str
    result: str
    """RocketMQ's word for it: CR_SUCCESS, CR_LATER, CR_ROLLBACK, CR_COMMIT, CR_THROW_EXCEPTION or CR_RETURN_NULL."""
    orderly: bool
    auto_commit: bool
    seconds: float
    remark: str | None
    """Why it failed."""

    @property
    def succeeded(self) -> bool:
        """True if the listener accepted the message."""
        return self.result in _SUCCESSES


async def plan_direct(calls: AdminCalls, message: MessageExt, address: str, group: str, client_id: str) -> DirectPlan:
    """Check that the consumer can be asked; raises ClientError if it is not connected to the message's broker."""
    known = await calls.group_connections(address, group)
    members = {member.client_id: member for member in known.connection_set} if known else {}
    member = members.get(client_id)
    if member is None:
        there = f"it has {', '.join(sorted(members))}" if members else "it has no members there"
        raise ClientError(
            f"client {client_id} of group {group!r} is not connected to {message.broker_name}, which has the message: "
            + there
        )
    return DirectPlan(message=message, group=group, client_id=client_id, language=member.language.name, address=address)


async def consume_directly(calls: AdminCalls, plan: DirectPlan) -> DirectResult:
    """Ask the consumer, through the broker, and return what its listener did."""
    answer = await calls.consume_directly(plan.address, plan.group, plan.client_id, plan.message.offset_message_id)
    return _result(plan, answer)


def _result(plan: DirectPlan, answer: ConsumeMessageDirectlyResult) -> DirectResult:
    return DirectResult(
        message_id=plan.message.message_id,
        group=plan.group,
        client_id=plan.client_id,
        result=answer.consume_result.value if answer.consume_result else "",
        orderly=answer.order,
        auto_commit=answer.auto_commit,
        seconds=answer.spent_time_mills / 1000,
        remark=answer.remark,
    )
