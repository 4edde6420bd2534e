"""Settings that are changed while the broker runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pyromq.blocking import AdminClient
from pyromq.broker.config.broker_config import broker_config, settings_of
from pyromq.broker.config.live_settings import CHANGEABLE
from pyromq.broker.server import Broker
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import ServiceNotAvailable
from pyromq.namesrv.server import NameServer
from pyromq.protocol.bodies import TopicConfig, TopicRouteData, decode
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import request
from pyromq.testing import LocalCluster, TestClock
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer

CHANGE = RequestCode.UPDATE_BROKER_CONFIG
FILE = "config/changedSettings.json"


async def told(peer: Peer) -> dict[str, str]:
    lines = (await peer.ask(RequestCode.GET_BROKER_CONFIG)).body.decode().splitlines()
    return dict(line.split("=", 1) for line in lines)


async def test_a_changed_setting_is_in_force_at_once_and_told(peer: Peer, broker: Broker) -> None:
    await peer.send()
    await peer.ask(CHANGE, body=b"brokerPermission=2\nautoCreateTopicEnable=false\nfileReservedTime=7\n")
    await peer.pull(expect=ResponseCode.NO_PERMISSION)
    await peer.send("unknown", expect=ResponseCode.TOPIC_NOT_EXIST)
    found = await told(peer)
    assert (found["brokerPermission"], found["autoCreateTopicEnable"], found["fileReservedTime"]) == ("2", "false", "7")
    assert broker.store.cleaner.retention._config.file_reserved_hours == 7
    await peer.ask(CHANGE, body=b"brokerPermission = 6\nautoCreateTopicEnable=true")
    await peer.pull()
    await peer.send("unknown")


async def test_every_setting_that_can_be_changed_is_taken(peer: Peer) -> None:
    given = settings_of(broker_config({}))
    await peer.ask(CHANGE, body="".join(f"{key}={given[key]}\n" for key in CHANGEABLE).encode())


@pytest.mark.parametrize(
    ("line", "code", "reason"),
    [
        (b"storePathRootDir=/elsewhere", ResponseCode.NO_PERMISSION, "storePathRootDir"),
        (b"sendMessageThreadPoolNums=9", ResponseCode.NO_PERMISSION, "sendMessageThreadPoolNums"),
        (b"noSuchKey=1", ResponseCode.NO_PERMISSION, "noSuchKey"),
        (b"brokerPermission=99", ResponseCode.SYSTEM_ERROR, "must be between 0 and 7"),
        (b"slaveReadEnable=perhaps", ResponseCode.SYSTEM_ERROR, "slaveReadEnable must be true or false"),
        (b"slaveReadEnable=\xff", ResponseCode.SYSTEM_ERROR, "UTF-8"),
    ],
)
async def test_what_cannot_be_changed_is_refused_and_nothing_else_changed(
    peer: Peer, line: bytes, code: int, reason: str
) -> None:
    before = await told(peer)
    answer = await peer.ask(CHANGE, body=b"fileReservedTime=7\n" + line, expect=code)
    assert reason in (answer.remark or "")
    assert await told(peer) == before


async def test_a_change_survives_a_restart_until_broker_conf_says_something_else(
    clock: TestClock, tmp_path: Path, connect: Connect
) -> None:
    base = {"listenPort": "0", "storePathRootDir": str(tmp_path), "fileReservedTime": "48"}

    async def started(**settings: str) -> dict[str, str]:
        async with Broker(broker_config(base | settings), clock) as broker:
            return await told(await connect(broker))

    async with Broker(broker_config(base), clock) as broker:
        peer = await connect(broker)
        await peer.ask(CHANGE, body=b"fileReservedTime=7\nslaveReadEnable=true")
        await peer.ask(CHANGE, body=b"slaveReadEnable=false")
    assert b"slaveReadEnable" not in (tmp_path / FILE).read_bytes()
    assert (await started())["fileReservedTime"] == "7"
    assert (await started(fileReservedTime="24"))["fileReservedTime"] == "24"


async def test_a_changed_permission_is_registered_before_the_answer(
    start_broker: StartBroker, connect: Connect, clock: TestClock, tmp_path: Path
) -> None:
    async with NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=tmp_path / "namesrv") as name_server:
        peer = await connect(await start_broker(namesrvAddr=name_server.address))
        await peer.send()

        async def permission() -> int:
            asked = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
            answer = await peer.remoting.request(name_server.address, asked, 10)
            return decode(TopicRouteData, answer.body).queue_datas[0].perm

        await peer.ask(CHANGE, body=b"brokerPermission=4")
        assert await permission() == 4
        await peer.ask(CHANGE, body=b"brokerPermission=6")
        assert await permission() == 6


async def test_creation_by_sends_can_be_switched_on_where_it_was_off(
    start_broker: StartBroker, connect: Connect
) -> None:
    peer = await connect(await start_broker(autoCreateTopicEnable="false"))
    await peer.send(expect=ResponseCode.TOPIC_NOT_EXIST)
    await peer.ask(CHANGE, body=b"autoCreateTopicEnable=true")
    await peer.send()


def test_a_slave_takes_changes_of_its_settings_and_refuses_all_other_writes() -> None:
    with LocalCluster(slaves=1) as cluster, AdminClient(cluster.namesrv) as admin:
        slave = cluster.slaves[0]
        assert slave.server is not None
        plan = admin.settings.set({"fileReservedTime": "48"})
        assert [change.server.address for change in plan.changes] == [cluster.brokers[0].address, slave.address]
        assert slave.server.config.store.file_reserved_hours == 48
        assert (slave.store_path / FILE).exists()
        with pytest.raises(ServiceNotAvailable, match="this broker is a slave"):
            asyncio.run(create_topic(slave.address))


async def create_topic(address: str) -> None:
    async with await BrokerApi.connect(address) as api:
        await AdminCalls(api.remoting).update_topic(address, TopicConfig(topic_name="orders"))
