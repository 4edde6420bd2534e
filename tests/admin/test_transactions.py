"""Half messages as an operator sees them; tests/cli/commands/test_transaction.py lists and resumes real ones."""

from __future__ import annotations

import pytest

from pyromq import MessageExt
from pyromq.admin import AdminClient, HalfMessage
from pyromq.protocol.messages.properties import encode_properties
from pyromq.testing import LocalCluster


@pytest.mark.parametrize(("text", "checks"), [("3", 3), ("-1", 0), ("often", 0)])
def test_a_half_message_knows_its_topic_its_group_and_its_checks(text: str, checks: int) -> None:
    properties = {"REAL_TOPIC": "orders", "PGROUP": "shop", "TRANSACTION_CHECK_TIMES": text}
    half = HalfMessage(MessageExt("half", b"", encode_properties(properties).encode()), given_up=False)
    assert (half.topic, half.group, half.checks) == ("orders", "shop", checks)


async def test_without_transactions_nothing_is_listed() -> None:
    async with LocalCluster() as cluster, AdminClient(cluster.namesrv) as admin:
        assert [half async for half in admin.transactions.pending()] == []
        assert [half async for half in admin.transactions.given_up()] == []
