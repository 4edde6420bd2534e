"""The configuration of servers: what is in force, what differs, and changes."""

from __future__ import annotations

import pytest

from pyromq.admin import AdminClient
from pyromq.errors import ClientError, ServiceNotAvailable
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection
from pyromq.testing import LocalCluster


async def test_what_differs_from_the_default_is_known(admin: AdminClient, pair: LocalCluster) -> None:
    first, second = await admin.settings.of_brokers()
    assert [(one.title, one.address) for one in (first, second)] == [
        ("broker-a", pair.brokers[0].address),
        ("broker-b", pair.brokers[1].address),
    ]
    port = first.settings["listenPort"]
    assert (port.value, port.default, port.changeable) == (str(pair.brokers[0].port), "10911", False)
    kept = first.settings["fileReservedTime"]
    assert (kept.value, kept.differs, kept.changeable) == ("72", False, True)
    assert first.settings["brokerName"].differs is False
    assert second.settings["brokerName"].differs is True


async def test_a_change_is_planned_then_made_at_one_broker_or_at_all(admin: AdminClient, pair: LocalCluster) -> None:
    plan = await admin.settings.plan_set({"fileReservedTime": "48"}, broker="broker-b")
    assert [(one.server.broker, one.key, one.before, one.after) for one in plan.changes] == [
        ("broker-b", "fileReservedTime", "72", "48")
    ]
    assert {one.settings["fileReservedTime"].value for one in await admin.settings.of_brokers()} == {"72"}
    await admin.settings.set({"fileReservedTime": "48", "deleteWhen": "05"}, broker="broker-b")
    found = await admin.settings.of_brokers()
    assert [one.settings["fileReservedTime"].value for one in found] == ["72", "48"]
    await admin.settings.set({"fileReservedTime": "24"})
    found = await admin.settings.of_brokers()
    assert [(one.settings["fileReservedTime"].value, one.settings["deleteWhen"].value) for one in found] == [
        ("24", "04"),
        ("24", "05"),
    ]
    await admin.settings.set({"fileReservedTime": "72", "deleteWhen": "04"})


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({}, "nothing to change"),
        ({"fileReservedTme": "1"}, r"broker-a has no setting 'fileReservedTme'; did you mean fileReservedTime\?"),
        ({"listenPort": "1"}, "listenPort cannot be changed while broker-a runs"),
        ({"fileReservedTime": "soon"}, "fileReservedTime must be a whole number, not 'soon'"),
        ({"deleteWhen": "04\nlistenPort=1"}, "has a line break"),
    ],
)
async def test_what_is_wrong_changes_nothing(admin: AdminClient, values: dict[str, str], problem: str) -> None:
    before = await admin.settings.of_brokers()
    with pytest.raises(ClientError, match=problem):
        await admin.settings.set({"maxStoreBytes": "7", **values} if values else values)
    assert await admin.settings.of_brokers() == before


async def test_a_broker_that_nobody_knows_is_an_error(admin: AdminClient) -> None:
    with pytest.raises(ClientError, match=r"no name server knows a broker 'broker-x'; did you mean broker-"):
        await admin.settings.of_brokers("broker-x")


async def test_a_broker_that_does_not_answer_is_shown_and_stops_a_change(
    admin: AdminClient, pair: LocalCluster
) -> None:
    def refuse(request: RemotingCommand, connection: Connection) -> None:
        raise ServiceNotAvailable("this broker is stopping")

    assert pair.brokers[1].server is not None
    pair.brokers[1].server.handlers[RequestCode.GET_BROKER_CONFIG] = refuse
    first, second = await admin.settings.of_brokers()
    assert not first.silence
    assert "this broker is stopping" in second.silence
    with pytest.raises(ClientError, match="broker-b does not answer, so nothing was changed"):
        await admin.settings.set({"fileReservedTime": "1"})
    assert (await admin.settings.of_brokers("broker-a"))[0].settings["fileReservedTime"].value == "72"


async def test_name_servers_have_settings_too(admin: AdminClient, pair: LocalCluster) -> None:
    (server,) = await admin.settings.of_name_servers()
    assert server.title == f"namesrv {pair.namesrv}"
    assert server.settings["listenPort"].default == "9876"
    assert [key for key, one in server.settings.items() if one.differs] == [
        "configStorePath",
        "kvConfigPath",
        "listenPort",
    ]
    assert [key for key, one in server.settings.items() if one.changeable] == ["orderMessageEnable"]
    await admin.settings.set({"orderMessageEnable": "true"}, name_servers=True)
    (server,) = await admin.settings.of_name_servers()
    assert server.settings["orderMessageEnable"].value == "true"
    await admin.settings.set({"orderMessageEnable": "false"}, name_servers=True)
    with pytest.raises(ClientError, match="kvConfigPath cannot be changed while"):
        await admin.settings.set({"kvConfigPath": "/tmp/x"}, name_servers=True)


async def test_a_change_survives_a_restart(admin: AdminClient, pair: LocalCluster) -> None:
    await admin.settings.set({"fileReservedTime": "48"}, broker="broker-a")
    pair.stop_broker(0)
    pair.start_broker(0)
    (server,) = await admin.settings.of_brokers("broker-a")
    assert server.settings["fileReservedTime"].value == "48"
