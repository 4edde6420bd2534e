"""The ledger against a plain model of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyromq.broker.transactions.transaction_ledger import TransactionLedger


@given(st.integers(0, 50), st.lists(st.integers(0, 120), max_size=80), st.integers(0, 100))
def test_a_ledger_knows_what_a_set_would_know(low: int, settled: list[int], advance_after: int) -> None:
    ledger = TransactionLedger(low, op_low=7)
    known = set(range(low))
    ops: list[int] = []
    for number, offset in enumerate(settled):
        ledger.note_op(7 + number, offset)
        ledger.settle(offset)
        known.add(offset)
        ops.append(offset)
        if number == advance_after:
            ledger.advance()
    ledger.advance()
    first_open = next(offset for offset in range(300) if offset not in known)
    assert ledger.low == max(first_open, low)
    assert [ledger.is_open(offset) for offset in range(150)] == [offset not in known for offset in range(150)]
    assert [ledger.next_open(offset) for offset in range(150)] == [
        next(other for other in range(max(offset, low), 400) if other not in known) for offset in range(150)
    ]
    assert ledger.open_before(150) == sum(offset not in known for offset in range(150))
    needed = next((index for index, offset in enumerate(ops) if offset >= ledger.low), len(ops))
    assert ledger.op_low == 7 + needed


def test_an_op_record_that_cannot_be_read_holds_nothing_up() -> None:
    ledger = TransactionLedger(0, 0)
    ledger.note_op(2, 0)  # 0 and 1 are damaged
    ledger.settle(0)
    ledger.advance()
    assert (ledger.low, ledger.op_low) == (1, 3)


def test_half_messages_that_were_removed_are_done_with() -> None:
    ledger = TransactionLedger(0, 0)
    ledger.note_op(0, 5)
    ledger.settle(5)
    ledger.skip_to(5)
    assert (ledger.low, ledger.op_low) == (6, 1)
    ledger.skip_to(3)
    assert ledger.low == 6
    assert not ledger.is_open(2)
