"""KV settings of all name servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.admin import AdminClient, KvSetting
from pyromq.clock import SystemClock
from pyromq.errors import ClientError
from pyromq.namesrv.server import NameServer


@pytest.fixture
async def name_servers() -> AsyncIterator[list[NameServer]]:
    async with (
        NameServer(host="127.0.0.1", port=0, clock=SystemClock(), data_dir=None) as first,
        NameServer(host="127.0.0.1", port=0, clock=SystemClock(), data_dir=None) as second,
    ):
        yield [first, second]


@pytest.fixture
async def admin(name_servers: list[NameServer]) -> AsyncIterator[AdminClient]:
    async with AdminClient([server.address for server in name_servers]) as opened:
        yield opened


async def test_values_are_set_read_and_deleted_at_all_name_servers(
    admin: AdminClient, name_servers: list[NameServer]
) -> None:
    assert (await admin.kv.list("space")).values == ()
    await admin.kv.set("space", "key", "a value = 1")
    assert [server._kv.get("space", "key") for server in name_servers] == ["a value = 1"] * 2
    wanted = KvSetting(namespace="space", key="key", value="a value = 1")
    assert await admin.kv.get("space", "key") == wanted
    assert (await admin.kv.list("space")).values == (wanted,)
    await admin.kv.delete("space", "key")
    assert [server._kv.get("space", "key") for server in name_servers] == [None] * 2


async def test_name_servers_that_differ_are_shown_and_setting_the_value_heals_them(
    admin: AdminClient, name_servers: list[NameServer]
) -> None:
    await admin.kv.set("space", "key", "new")
    await name_servers[1]._kv.put("space", "key", "old")
    await name_servers[0]._kv.put("space", "lone", "here only")
    differing, lone = (await admin.kv.list("space")).values
    assert {differing.value, *differing.others.values()} == {"new", "old"}
    assert lone.others == {name_servers[1].address: None}
    await admin.kv.set("space", "key", "new")
    assert (await admin.kv.get("space", "key")).others == {}


async def test_a_name_server_that_is_away_is_named(name_servers: list[NameServer], tmp_path: Path) -> None:
    async with AdminClient([name_servers[0].address, "127.0.0.1:1"]) as admin:
        await name_servers[0]._kv.put("space", "key", "value")
        listing = await admin.kv.list("space")
        assert [one.value for one in listing.values] == ["value"]
        assert list(listing.silent) == ["127.0.0.1:1"]
        with pytest.raises(ClientError, match=r"name server 127\.0\.0\.1:1 was not told, so run this again later"):
            await admin.kv.set("space", "key", "other")
    async with AdminClient("127.0.0.1:1") as admin:
        with pytest.raises(ClientError, match=r"name server 127\.0\.0\.1:1 does not answer"):
            await admin.kv.list("space")


async def test_bad_input_changes_nothing(admin: AdminClient) -> None:
    for namespace, key in (("", "key"), ("space", "")):
        with pytest.raises(ClientError, match="neither may be empty"):
            await admin.kv.set(namespace, key, "value")
    with pytest.raises(ClientError, match="an order setting is broker:queues;broker:queues, and 'eight' is not that"):
        await admin.kv.set("ORDER_TOPIC_CONFIG", "orders", "broker-a:8;eight")
    assert (await admin.kv.list()).values == ()
    with pytest.raises(ClientError, match="the namespace 'space' has no key 'none'"):
        await admin.kv.delete("space", "none")
