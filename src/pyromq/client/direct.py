"""The answer to CONSUME_MESSAGE_DIRECTLY: how a listener fared with one message that an operator gave it."""

from __future__ import annotations

from pyromq.client.outcomes import COMMIT, ROLLBACK, Action, DeadLetter, RetryLater, Suspend, cause_of, judge
from pyromq.protocol.bodies import ConsumeMessageDirectlyResult, ConsumeResult


def direct_result(outcome: object, seconds: float, *, orderly: bool) -> ConsumeMessageDirectlyResult:
    """Return RocketMQ's word for what a listener returned or raised."""
    result = _result(outcome)
    return ConsumeMessageDirectlyResult(
        order=orderly,
        auto_commit=True,
        consume_result=result,
        remark=cause_of(outcome) if isinstance(outcome, BaseException) else None,
        spent_time_mills=int(seconds * 1000),
    )


def _result(outcome: object) -> ConsumeResult:
    if outcome is COMMIT:
        return ConsumeResult.CR_COMMIT
    if outcome is ROLLBACK:
        return ConsumeResult.CR_ROLLBACK
    if isinstance(outcome, BaseException) and not isinstance(outcome, RetryLater | DeadLetter | Suspend):
        return ConsumeResult.CR_THROW_EXCEPTION
    return ConsumeResult.CR_SUCCESS if judge(1, outcome).action is Action.NOTHING else ConsumeResult.CR_LATER
