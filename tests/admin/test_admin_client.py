"""The life of an AdminClient; what its themes do is in the tests of each theme."""

from __future__ import annotations

import pytest

from pyromq.admin import AdminClient
from pyromq.errors import ClientError
from pyromq.testing import LocalCluster


async def test_a_client_that_is_not_open_has_no_themes(cluster: LocalCluster) -> None:
    admin = AdminClient(cluster.namesrv)
    for theme in ("groups", "topics", "dead_letters", "timed_messages", "transactions", "traces", "api"):
        with pytest.raises(ClientError, match="this client is not open"):
            getattr(admin, theme)
    async with admin:
        assert await admin.masters() == {"broker-a": cluster.brokers[0].address}
        with pytest.raises(ClientError, match="open already"):
            await admin.start()
    async with admin:
        assert await admin.producer() is await admin.producer(), "one producer, opened on first use"
