"""Headers of transactional messages."""

from __future__ import annotations

from enum import IntEnum

from msgspec import field

from pyromq.protocol.headers import I32, I64, Header


class TransactionState(IntEnum):
    """The outcome of a transaction, with the values of the message's sysFlag bits."""

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12


class EndTransactionRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """END_TRANSACTION (37); both offsets are those of the half message."""

    producer_group: str
    tran_state_table_offset: I64
    commit_log_offset: I64
    commit_or_rollback: TransactionState
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None
    broker_name: str | None = field(default=None, name="bname")


class CheckTransactionStateRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """CHECK_TRANSACTION_STATE (39), broker to client; the half message is the body."""

    tran_state_table_offset: I64
    commit_log_offset: I64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessageRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """RESUME_CHECK_HALF_MESSAGE (323)."""

    msg_id: str | None = None


class ListTransactionsRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """LIST_TRANSACTIONS (30010): half messages starting at an offset, open ones or those given up."""

    given_up: bool = False
    offset: I64
    max_num: I32


class ListTransactionsResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """Where the next page starts; the body holds the half messages as stored records."""

    next_offset: I64
    is_last: bool = False
