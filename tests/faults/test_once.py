"""The short form of the campaign from outbox to idempotent handler."""

from __future__ import annotations

import pytest

from tests.faults.once import run


@pytest.mark.usefixtures("no_log")
def test_each_order_is_billed_once_although_every_process_is_killed() -> None:
    outcome = run(orders=300, kills=3, seed=3)
    assert outcome.good, str(outcome)
    assert outcome.orders > 150
    assert outcome.kills.total() == 3
