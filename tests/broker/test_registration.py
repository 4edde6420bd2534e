from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from pyromq.broker.server import Broker
from pyromq.broker.tables.topic_table import topic_config
from pyromq.errors import ConfigError
from pyromq.namesrv.server import NameServer
from pyromq.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    DataVersion,
    RegisterBrokerBody,
    TopicRouteData,
    decode,
    decode_register_body,
    encode,
)
from pyromq.protocol.codes import VERSION, LanguageCode, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request, response
from pyromq.protocol.messages.record import body_crc
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import Handler
from pyromq.remoting.server import RemotingServer
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import PATIENCE


class Watcher:
    """Somebody who asks a name server."""

    def __init__(self, server: NameServer, clock: TestClock) -> None:
        self.server = server
        self.remoting = RemotingClient(clock)

    async def route(self, topic: str) -> TopicRouteData | None:
        command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        answer = await self.remoting.request(self.server.address, command, PATIENCE)
        return decode(TopicRouteData, answer.body) if answer.code == ResponseCode.SUCCESS else None

    async def route_within_patience(self, topic: str) -> TopicRouteData:
        async with asyncio.timeout(PATIENCE):
            while True:
                if route := await self.route(topic):
                    return route
                await asyncio.sleep(0.01)

    async def brokers(self) -> set[str]:
        command = request(RequestCode.GET_BROKER_CLUSTER_INFO)
        answer = await self.remoting.request(self.server.address, command, PATIENCE)
        return set(decode(ClusterInfo, answer.body).broker_addr_table)

    async def set_order(self, topic: str, value: str) -> None:
        fields = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": value}
        await self.remoting.request(self.server.address, request(RequestCode.PUT_KV_CONFIG, fields), PATIENCE)


@pytest.fixture
async def name_server(clock: TestClock) -> AsyncIterator[NameServer]:
    async with NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=None) as server:
        yield server


@pytest.fixture
async def watcher(name_server: NameServer, clock: TestClock) -> AsyncIterator[Watcher]:
    watcher = Watcher(name_server, clock)
    yield watcher
    await watcher.remoting.close()


@pytest.mark.parametrize("compressed", ["false", "true"])
async def test_a_broker_is_known_once_it_has_started(
    start_broker: StartBroker, name_server: NameServer, watcher: Watcher, compressed: str
) -> None:
    broker = await start_broker(namesrvAddr=name_server.address, compressedRegister=compressed)
    route = await watcher.route("TBW102")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: broker.address}
    assert (route.queue_datas[0].write_queue_nums, route.queue_datas[0].perm) == (8, 7)
    assert broker.health.problem() == ""


async def test_a_topic_made_by_a_send_is_known_at_once(
    start_broker: StartBroker, connect: Connect, name_server: NameServer, watcher: Watcher
) -> None:
    broker = await start_broker(namesrvAddr=name_server.address)
    await (await connect(broker)).send("orders")
    route = await watcher.route_within_patience("orders")
    assert (route.queue_datas[0].read_queue_nums, route.queue_datas[0].perm) == (4, 6)


async def test_a_topic_made_by_an_administrator_is_known_before_the_answer(
    start_broker: StartBroker, connect: Connect, name_server: NameServer, watcher: Watcher
) -> None:
    peer = await connect(await start_broker(namesrvAddr=name_server.address))
    fields = {"topic": "orders", "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2", "perm": "6"}
    await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields | {"topicFilterType": "SINGLE_TAG"})
    assert await watcher.route("orders") is not None


async def test_a_broker_that_stops_is_forgotten_at_once(
    clock: TestClock, start_broker: StartBroker, name_server: NameServer, watcher: Watcher
) -> None:
    broker = await start_broker(namesrvAddr=name_server.address)
    assert await watcher.brokers() == {"broker-a"}
    await broker.__aexit__(None, None, None)
    assert await watcher.brokers() == set()


async def test_a_name_server_hears_all_that_apaches_broker_would_tell(
    start_broker: StartBroker, clock: TestClock
) -> None:
    heard: list[RemotingCommand] = []

    def answer(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        heard.append(command)
        return response(command)

    handlers: dict[int, Handler] = {RequestCode.REGISTER_BROKER: answer, RequestCode.UNREGISTER_BROKER: answer}
    async with RemotingServer(handlers, host="127.0.0.1", port=0, clock=clock) as server:
        broker = await start_broker(namesrvAddr=f"127.0.0.1:{server.port}", brokerIP2="10.0.0.9")
        identity = {
            "brokerName": "broker-a",
            "brokerAddr": broker.address,
            "clusterName": "DefaultCluster",
            "brokerId": "0",
            "pyromqEpoch": "1",  # ours; others ignore it
        }
        await broker.__aexit__(None, None, None)
        registration, farewell = heard
    assert (registration.language, registration.version) == (LanguageCode.JAVA, VERSION)
    assert registration.ext_fields == identity | {
        "haServerAddr": f"10.0.0.9:{broker._ha.port}",
        "compressed": "false",
        "bodyCrc32": str(body_crc(registration.body)),
        "pyromqHistory": broker.history.epochs.origin,
    }
    table = decode(RegisterBrokerBody, registration.body).topic_config_serialize_wrapper.topic_config_table
    assert table["TBW102"].perm == 7
    assert (farewell.code, farewell.ext_fields) == (RequestCode.UNREGISTER_BROKER, identity)


class FakeNameServer:
    """Keeps the registrations that it gets, and answers as told."""

    def __init__(self) -> None:
        self.heard: list[tuple[DataVersion, set[str]]] = []
        self.code = ResponseCode.SUCCESS
        self.brokers: dict[int, str] = {}
        """Who is routed to, by id."""
        self.handlers: dict[int, Handler] = {
            RequestCode.REGISTER_BROKER: self._register,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.UNREGISTER_BROKER: lambda command, connection: response(command),
        }

    def _register(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        table = decode_register_body(
            command.body, compressed=command.ext_fields["compressed"] == "true"
        ).topic_config_serialize_wrapper
        self.heard.append((table.data_version, set(table.topic_config_table)))
        return response(command, self.code)

    def _route(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        if not self.brokers:
            return response(command, ResponseCode.TOPIC_NOT_EXIST)
        assert command.ext_fields["topic"] == "broker-a"
        broker = BrokerData(cluster="C1", broker_name="broker-a", broker_addrs=self.brokers)
        return response(command, body=encode(TopicRouteData(broker_datas=[broker])))


async def test_a_new_master_registers_every_5_s_until_the_name_server_names_no_other(
    start_broker: StartBroker, clock: TestClock
) -> None:
    fake, other = FakeNameServer(), "127.0.0.1:1"
    async with RemotingServer(fake.handlers, host="127.0.0.1", port=0, clock=clock) as server:
        fake.brokers = {0: other}  # as Apache's name server does when another master registers too
        broker = await start_broker(namesrvAddr=f"127.0.0.1:{server.port}")
        await clock.advance_async(seconds=5.5)
        await eventually(lambda: len(fake.heard) == 2)
        await clock.advance_async(seconds=5.5)
        await eventually(lambda: len(fake.heard) == 3)
        fake.brokers = {0: broker.address, 1: broker.address}
        await clock.advance_async(seconds=5.5)
        await eventually(lambda: len(fake.heard) == 4)
        assert broker.service.registration.is_claiming
        fake.brokers = {0: broker.address, 1: other}
        await clock.advance_async(seconds=5.5)
        await eventually(lambda: not broker.service.registration.is_claiming)
        await eventually(lambda: len(fake.heard) == 5)
        await clock.advance_async(seconds=20)
        assert len(fake.heard) == 5
        await broker.__aexit__(None, None, None)


async def test_a_master_that_a_newer_one_has_replaced_does_not_count_as_registered(
    start_broker: StartBroker, name_server: NameServer, watcher: Watcher, clock: TestClock, tmp_path: Path
) -> None:
    old = await start_broker(namesrvAddr=name_server.address)
    new = await start_broker(
        namesrvAddr=name_server.address, brokerRole="SLAVE", brokerId="1", storePathRootDir=tmp_path / "new"
    )
    await eventually(lambda: new._follower.is_connected)
    await new.promote()
    route = await watcher.route("TBW102")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: new.address}
    await clock.advance_async(seconds=31)
    await eventually(lambda: name_server.address in old.health.problem())
    assert new.health.problem() == ""
    await old.demote()
    await eventually(lambda: old.health.problem() == "")
    route = await watcher.route("TBW102")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: new.address, 1000: old.address}


async def test_two_masters_of_one_name_both_say_so(
    start_broker: StartBroker,
    name_server: NameServer,
    clock: TestClock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = await start_broker(namesrvAddr=name_server.address)
    second = await start_broker(namesrvAddr=name_server.address, storePathRootDir=tmp_path / "second")
    assert "epoch 1 is taken" in second.health.problem()
    assert first.health.problem() == ""
    for _ in range(10):
        await clock.advance_async(seconds=6)
    await eventually(lambda: first.service.registration.rivals)
    assert second.address in first.health.problem()
    assert f"two brokers are name='broker-a' id=0: '{second.address}' and '{first.address}'" in caplog.text
    (problem,) = name_server.problems()
    assert (problem.cause, first.address in problem.text) == ("same_name_and_id", True)
    await second.__aexit__(None, None, None)
    for _ in range(20):
        await clock.advance_async(seconds=6)
    await eventually(lambda: first.health.problem() == "")


async def test_two_slaves_of_one_id_both_say_so(
    start_broker: StartBroker, name_server: NameServer, clock: TestClock, tmp_path: Path
) -> None:
    await start_broker(namesrvAddr=name_server.address)
    slave = {"namesrvAddr": name_server.address, "brokerRole": "SLAVE", "brokerId": "1"}
    one = await start_broker(**slave, storePathRootDir=tmp_path / "one")
    two = await start_broker(**slave, storePathRootDir=tmp_path / "two")
    for _ in range(12):
        await clock.advance_async(seconds=6)
    await eventually(lambda: one.service.registration.rivals and two.service.registration.rivals)
    assert two.address in one.health.problem()
    assert one.address in two.health.problem()


@pytest.mark.parametrize("compressed", ["false", "true"])
async def test_a_change_registers_only_the_topics_that_changed(
    start_broker: StartBroker, connect: Connect, clock: TestClock, compressed: str
) -> None:
    fake = FakeNameServer()
    async with RemotingServer(fake.handlers, host="127.0.0.1", port=0, clock=clock) as server:
        broker = await start_broker(namesrvAddr=f"127.0.0.1:{server.port}", compressedRegister=compressed)
        peer = await connect(broker)
        await peer.send("orders")
        await eventually(lambda: len(fake.heard) == 2)
        fields = {"topic": "paid", "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2", "perm": "6"}
        await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields | {"topicFilterType": "SINGLE_TAG"})
        assert "TBW102" in fake.heard[0][1]
        assert fake.heard[1] == (fake.heard[1][0], {"orders"})
        assert fake.heard[2] == (broker.topics.version, {"paid"})
        await clock.advance_async(seconds=31)  # now and then it hears of all
        await eventually(lambda: fake.heard[-1] == (broker.topics.version, set(broker.topics.by_name)))
        await broker.__aexit__(None, None, None)


async def test_a_name_server_that_may_have_missed_something_hears_of_all_topics(
    start_broker: StartBroker, connect: Connect, clock: TestClock
) -> None:
    fake = FakeNameServer()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(RemotingServer(fake.handlers, host="127.0.0.1", port=0, clock=clock))
        broker = await start_broker(namesrvAddr=f"127.0.0.1:{server.port}")
        stack.push_async_callback(broker.__aexit__, None, None, None)
        everything = {*broker.topics.by_name, "refused", "later"}
        fake.code = ResponseCode.SYSTEM_ERROR
        broker.topics.update(topic_config("refused", 4))
        await eventually(lambda: fake.heard[-1][1] == {"refused"})
        fake.code = ResponseCode.SUCCESS
        broker.topics.update(topic_config("later", 4))
        await eventually(lambda: fake.heard[-1][1] == everything)
        for connection in list(server.connections):
            connection.abort("as by a restart")
        broker.topics.update(topic_config("again", 4))
        await clock.advance_async(seconds=6)
        await eventually(lambda: fake.heard[-1][1] == {*everything, "again"})


async def test_a_broker_under_another_id_registers_all_its_topics(start_broker: StartBroker, clock: TestClock) -> None:
    fake = FakeNameServer()
    async with RemotingServer(fake.handlers, host="127.0.0.1", port=0, clock=clock) as server:
        broker = await start_broker(namesrvAddr=f"127.0.0.1:{server.port}")
        broker.service.registration.broker_id = 1
        await eventually(lambda: len(fake.heard) == 2)
        assert fake.heard[0] == fake.heard[1]
        await broker.__aexit__(None, None, None)


async def test_many_topics_are_registered_without_stopping_the_loop(
    start_broker: StartBroker, name_server: NameServer, watcher: Watcher, clock: TestClock
) -> None:
    broker = await start_broker(namesrvAddr=name_server.address)
    for number in range(1000):
        broker.topics.update(topic_config(f"topic-{number}", 4))
    await watcher.route_within_patience("topic-999")
    assert await watcher.route("topic-0") is not None


async def test_registrations_are_repeated_so_that_the_name_server_keeps_the_broker(
    start_broker: StartBroker, name_server: NameServer, watcher: Watcher, clock: TestClock
) -> None:
    await start_broker(namesrvAddr=name_server.address)
    await clock.advance_async(minutes=10, step=5)
    assert await watcher.brokers() == {"broker-a"}


async def test_every_name_server_is_told_and_a_dead_one_holds_nobody_up(
    start_broker: StartBroker,
    name_server: NameServer,
    watcher: Watcher,
    clock: TestClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with AsyncExitStack() as stack:
        second = await stack.enter_async_context(NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=None))
        dead = "127.0.0.1:1"
        with caplog.at_level(logging.WARNING):
            broker = await start_broker(namesrvAddr=f"{dead};{name_server.address};{second.address}")
            await clock.advance_async(minutes=1)
        other = Watcher(second, clock)
        stack.push_async_callback(other.remoting.close)
        assert await watcher.brokers() == await other.brokers() == {"broker-a"}
        assert broker.http_info()["registered_at"] == sorted([name_server.address, second.address])
        assert caplog.text.count(f"cannot register at name server {dead}") == 1


async def test_a_broker_given_as_name_server_is_told_as_such(
    start_broker: StartBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = await start_broker()
    await start_broker(storePathRootDir=tmp_path / "other", brokerName="broker-b", namesrvAddr=other.address)
    assert f"cannot register at name server {other.address}: it is no name server; is it a broker?" in caplog.text


async def test_a_name_server_that_comes_later_hears_of_the_broker_within_seconds(
    start_broker: StartBroker, clock: TestClock
) -> None:
    async with NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=None) as server:
        address, port = server.address, server.port
    broker = await start_broker(namesrvAddr=address)
    assert address in broker.health.problem()
    async with NameServer(host="127.0.0.1", port=port, clock=clock, data_dir=None) as server:
        await clock.advance_async(seconds=6)
        await eventually(lambda: broker.health.problem() == "")


async def test_name_servers_that_come_back_empty_know_the_broker_within_seconds(
    start_broker: StartBroker, clock: TestClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with AsyncExitStack() as servers:
        started = [
            await servers.enter_async_context(NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=None))
            for _ in range(2)
        ]
        ports = [server.port for server in started]
        broker = await start_broker(namesrvAddr=";".join(server.address for server in started))
        broker.topics.update(topic_config("orders", 4))
        await clock.advance_async(seconds=1)
        caplog.set_level(logging.INFO)
        caplog.clear()
    await clock.advance_async(minutes=10, step=5)
    told = [record.getMessage() for record in caplog.records if record.name == "pyromq.broker.registration"]
    assert len(told) == 2, told  # one line for each, not one for every attempt
    async with AsyncExitStack() as servers:
        for port in ports:
            server = NameServer(host="127.0.0.1", port=port, clock=clock, data_dir=None)
            watcher = Watcher(await servers.enter_async_context(server), clock)
            servers.push_async_callback(watcher.remoting.close)
            await clock.advance_async(seconds=6)
            assert await watcher.route("orders") is not None
        servers.push_async_callback(broker.__aexit__, None, None, None)
    assert sum(record.getMessage().startswith("registered") for record in caplog.records) == 2


async def test_a_name_server_that_was_restarted_is_told_long_before_the_next_period(
    start_broker: StartBroker, clock: TestClock
) -> None:
    async with NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=None) as server:
        port = server.port
        broker = await start_broker(namesrvAddr=server.address)
    async with NameServer(host="127.0.0.1", port=port, clock=clock, data_dir=None) as server:
        await clock.advance_async(seconds=6)
        watcher = Watcher(server, clock)
        assert await watcher.brokers() == {"broker-a"}
        await watcher.remoting.close()
        await broker.__aexit__(None, None, None)


async def test_the_name_servers_order_table_marks_topics(
    start_broker: StartBroker, name_server: NameServer, watcher: Watcher, clock: TestClock
) -> None:
    broker = await start_broker(namesrvAddr=name_server.address)
    broker.topics.update(topic_config("ordered", 4))
    await watcher.set_order("ordered", "broker-a:4")
    await clock.advance_async(seconds=35)
    await eventually(lambda: broker.topics.by_name["ordered"].config.order)
    assert not broker.topics.by_name["BenchmarkTest"].config.order


async def test_a_broker_that_may_only_be_read_says_so_of_all_its_topics(
    start_broker: StartBroker, name_server: NameServer, watcher: Watcher
) -> None:
    await start_broker(namesrvAddr=name_server.address, brokerPermission=4)
    route = await watcher.route("TBW102")
    assert route is not None
    assert route.queue_datas[0].perm == 4


async def test_another_address_can_be_advertised(
    start_broker: StartBroker, name_server: NameServer, watcher: Watcher
) -> None:
    broker = await start_broker(namesrvAddr=name_server.address, brokerIP1="localhost")
    route = await watcher.route("TBW102")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: f"localhost:{broker.port}"}


async def test_a_loopback_address_is_not_registered_at_a_name_server_elsewhere(start_broker: StartBroker) -> None:
    with pytest.raises(ConfigError, match=r"brokerIP1: name server 192\.0\.2\.7:9876"):
        await start_broker(namesrvAddr="192.0.2.7:9876")


async def test_an_unknown_host_name_is_named_with_its_key(start_broker: StartBroker) -> None:
    with pytest.raises(ConfigError, match=r"brokerIP1: the host name no\.such\.host\.invalid"):
        await start_broker(brokerIP1="no.such.host.invalid")


async def test_a_broker_without_a_name_server_runs_on_its_own(broker: Broker) -> None:
    assert broker.health.problem() == ""
