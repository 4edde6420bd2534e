"""The name server over real sockets: every request it answers, who comes and who goes."""

from __future__ import annotations

import asyncio
import json
import zlib

import pytest

from pyromq.errors import RemotingError
from pyromq.namesrv.server import NameServer
from pyromq.protocol import bodies
from pyromq.protocol.bodies import (
    ClusterInfo,
    DataVersion,
    KVTable,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
)
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import SerializeType
from pyromq.protocol.headers import routes as headers
from pyromq.remoting import slices
from pyromq.testing import TestClock, eventually

from .conftest import Peer

MASTER = "10.0.0.1:10911"
SLAVE = "10.0.0.2:10911"


async def topics(peer: Peer, code: int, **ext: str) -> TopicList:
    return bodies.decode(TopicList, (await peer.ask(code, ext)).body)


class TestRegistration:
    async def test_a_registered_topic_has_a_route(self, peer: Peer) -> None:
        assert await peer.route() is None
        answer = await peer.register()
        assert answer.body == b""
        assert answer.ext_fields == {}
        route = await peer.route()
        assert route is not None
        assert route.broker_datas[0].broker_addrs == {0: MASTER}

    async def test_a_compressed_registration_is_read(self, peer: Peer) -> None:
        await peer.register(compressed=True)
        assert await peer.route() is not None

    async def test_a_registration_in_binary_is_answered_in_binary(self, peer: Peer) -> None:
        answer = await peer.register(serialize=SerializeType.ROCKETMQ)
        assert answer.serialize is SerializeType.ROCKETMQ
        assert await peer.route() is not None

    async def test_a_body_that_does_not_match_its_checksum_is_refused(self, peer: Peer) -> None:
        header = registration_header(body_crc32=1165874731)
        body = (
            b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":3,"timestamp":1640000000000},'
            b'"topicConfigTable":{"TopicTest":{"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG",'
            b'"topicName":"TopicTest","topicSysFlag":0,"writeQueueNums":8}}}}'
        )
        await peer.ask(RequestCode.REGISTER_BROKER, header, body, expect=ResponseCode.SYSTEM_ERROR)
        assert await peer.route("TopicTest") is None
        await peer.ask(RequestCode.REGISTER_BROKER, registration_header(body_crc32=1165874732), body)
        assert await peer.route("TopicTest") is not None

    async def test_a_registration_without_a_body_brings_no_topics(self, peer: Peer) -> None:
        await peer.ask(RequestCode.REGISTER_BROKER, registration_header())
        answer = await peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert list(bodies.decode(ClusterInfo, answer.body).broker_addr_table) == ["broker-a"]

    async def test_a_broker_before_3_0_11_sends_its_topic_table_alone(self, peer: Peer) -> None:
        table = TopicConfigSerializeWrapper(DataVersion(1, 1), {"orders": TopicConfig(topic_name="orders")})
        await peer.ask(RequestCode.REGISTER_BROKER, registration_header(), bodies.encode(table), version=36)
        assert await peer.route() is not None

    async def test_a_slave_is_told_its_master(self, peer: Peer) -> None:
        await peer.register()
        answer = await peer.register(address=SLAVE, broker_id=1)
        assert answer.ext_fields == {"masterAddr": MASTER, "haServerAddr": "10.0.0.1:10912"}

    async def test_every_broker_is_told_the_order_config(self, peer: Peer) -> None:
        await put(peer, "ORDER_TOPIC_CONFIG", "orders", "broker-a:8")
        answer = await peer.register()
        assert answer.body == b'{"table":{"orders":"broker-a:8"}}'

    @pytest.mark.parametrize("body", [b"{", b"[]", b"null", b'{"topicConfigSerializeWrapper":7}', b"\xff\xfe"])
    async def test_an_unreadable_body_is_an_error_and_changes_nothing(self, peer: Peer, body: bytes) -> None:
        await peer.ask(RequestCode.REGISTER_BROKER, registration_header(), body, expect=ResponseCode.SYSTEM_ERROR)
        compressed = registration_header(compressed=True)
        await peer.ask(RequestCode.REGISTER_BROKER, compressed, body, expect=ResponseCode.SYSTEM_ERROR)
        answer = await peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert bodies.decode(ClusterInfo, answer.body).broker_addr_table == {}

    async def test_a_body_that_inflates_beyond_all_measure_is_refused(self, peer: Peer) -> None:
        bomb = zlib.compress(bytes(100 << 20))
        header = registration_header(compressed=True)
        await peer.ask(RequestCode.REGISTER_BROKER, header, bomb, expect=ResponseCode.SYSTEM_ERROR)

    async def test_a_header_without_an_address_is_an_error(self, peer: Peer) -> None:
        await peer.ask(RequestCode.REGISTER_BROKER, {"brokerName": "x"}, expect=ResponseCode.SYSTEM_ERROR)


def registration_header(compressed: bool = False, body_crc32: int = 0) -> headers.RegisterBrokerRequestHeader:
    return headers.RegisterBrokerRequestHeader(
        broker_name="broker-a",
        broker_addr=MASTER,
        cluster_name="C1",
        ha_server_addr="10.0.0.1:10912",
        broker_id=0,
        compressed=compressed,
        body_crc32=body_crc32,
    )


async def one_connection_left(server: NameServer) -> None:
    await eventually(lambda: server.http_info()["connections"] == 1, "the other connection is closed")


async def put(peer: Peer, namespace: str, key: str, value: str) -> None:
    header = headers.PutKvConfigRequestHeader(namespace=namespace, key=key, value=value)
    await peer.ask(RequestCode.PUT_KV_CONFIG, header)


class TestDataVersion:
    async def ask(self, peer: Peer, version: DataVersion) -> tuple[str, bytes]:
        header = headers.QueryDataVersionRequestHeader(
            broker_name="broker-a", broker_addr=MASTER, cluster_name="C1", broker_id=0
        )
        answer = await peer.ask(RequestCode.QUERY_DATA_VERSION, header, bodies.encode(version))
        return answer.ext_fields["changed"], answer.body

    async def test_it_tells_whether_the_broker_must_register_again(self, peer: Peer) -> None:
        assert await self.ask(peer, DataVersion(1, 1)) == ("true", b"")
        await peer.register(version=1)
        assert await self.ask(peer, DataVersion(1, 1)) == ("false", b'{"counter":1,"timestamp":1}')
        assert await self.ask(peer, DataVersion(2, 2)) == ("true", b'{"counter":1,"timestamp":1}')

    async def test_asking_with_the_same_version_keeps_a_broker_alive(self, peer: Peer, clock: TestClock) -> None:
        await peer.register(version=1)
        for _ in range(5):
            await clock.advance_async(seconds=60)
            await self.ask(peer, DataVersion(1, 1))
        assert await peer.route() is not None


class TestLeaving:
    async def test_a_broker_says_goodbye(self, peer: Peer) -> None:
        await peer.register()
        header = headers.UnregisterBrokerRequestHeader(
            broker_name="broker-a", broker_addr=MASTER, cluster_name="C1", broker_id=0
        )
        await peer.ask(RequestCode.UNREGISTER_BROKER, header)
        assert await peer.route() is None
        await peer.ask(RequestCode.UNREGISTER_BROKER, header)

    async def test_a_lost_connection_takes_its_broker_away_at_once(self, peer: Peer, broker: Peer) -> None:
        await broker.register()
        assert await peer.route() is not None
        await broker.remoting.close()
        while await peer.route() is not None:  # the test's own time limit ends it
            pass

    async def test_a_client_that_leaves_changes_nothing(self, peer: Peer, broker: Peer, server: NameServer) -> None:
        await broker.register()
        assert await peer.route() is not None
        await peer.remoting.close()
        await one_connection_left(server)
        assert await broker.route() is not None

    async def test_a_broker_that_stays_silent_is_dropped_and_its_connection_closed(
        self, peer: Peer, broker: Peer, server: NameServer, clock: TestClock
    ) -> None:
        await broker.register()
        for _ in range(2):
            await clock.advance_async(seconds=55)
            assert await peer.route() is not None
            await broker.route()  # traffic keeps the connection, but only registering keeps the broker
        await clock.advance_async(seconds=25)
        assert await peer.route() is None
        await one_connection_left(server)

    async def test_a_broker_does_not_grow_old_when_somebody_sets_the_machines_clock(
        self, peer: Peer, broker: Peer, clock: TestClock
    ) -> None:
        await broker.register()
        clock.set_wall_clock(days=1)
        await clock.advance_async(seconds=30)
        assert await peer.route() is not None

    async def test_a_broker_that_registers_every_30_s_lives_through_a_far_advance(
        self, peer: Peer, broker: Peer, clock: TestClock
    ) -> None:
        async def keep_registering() -> None:
            while True:
                await broker.register()
                await clock.sleep(30)

        registering = asyncio.create_task(keep_registering())
        await clock.advance_async(hours=2)
        assert await peer.route() is not None
        registering.cancel()
        await asyncio.gather(registering, return_exceptions=True)
        await clock.advance_async(seconds=140)
        assert await peer.route() is None


class TestRoutes:
    async def test_keys_are_quoted_for_those_who_read_standard_json(self, peer: Peer) -> None:
        await peer.register()
        ask = RequestCode.GET_ROUTEINFO_BY_TOPIC
        new = await peer.ask(ask, {"topic": "orders"}, version=401)
        assert json.loads(new.body)["brokerDatas"][0]["brokerAddrs"] == {"0": MASTER}
        old = await peer.ask(ask, {"topic": "orders"}, version=399)
        assert b'{0:"10.0.0.1:10911"}' in old.body
        asked = await peer.ask(ask, {"topic": "orders", "acceptStandardJsonOnly": "true"}, version=399)
        assert asked.body == new.body

    async def test_a_route_is_written_as_java_does(self, peer: Peer) -> None:
        await peer.register()
        answer = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}, version=399)
        assert answer.body == (
            b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"broker-a","cluster":"C1"}],'
            b'"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":8,'
            b'"topicSysFlag":0,"writeQueueNums":8}]}'
        )

    async def test_no_route_names_the_topic(self, peer: Peer) -> None:
        answer = await peer.ask(105, {"topic": "nothing"}, expect=ResponseCode.TOPIC_NOT_EXIST)
        assert answer.remark is not None
        assert "nothing" in answer.remark

    async def test_the_order_config_is_in_the_route_only_if_that_is_enabled(self, peer: Peer) -> None:
        await put(peer, "ORDER_TOPIC_CONFIG", "orders", "broker-a:8")
        await peer.register()
        route = await peer.route()
        assert route is not None
        assert route.order_topic_conf is None
        await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n")
        route = await peer.route()
        assert route is not None
        assert route.order_topic_conf == "broker-a:8"

    async def test_write_permission_is_wiped_and_given_back(self, peer: Peer) -> None:
        await peer.register()
        wiped = await peer.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
        assert wiped.ext_fields == {"wipeTopicCount": "1"}
        route = await peer.route()
        assert route is not None
        assert route.queue_datas[0].perm == 4
        added = await peer.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
        assert added.ext_fields == {"addTopicCount": "1"}
        route = await peer.route()
        assert route is not None
        assert route.queue_datas[0].perm == 6

    async def test_a_topic_is_deleted_in_one_cluster_or_in_all(self, peer: Peer) -> None:
        await peer.register()
        await peer.register(name="broker-b", address=SLAVE, cluster="C2")
        delete = RequestCode.DELETE_TOPIC_IN_NAMESRV
        await peer.ask(delete, headers.DeleteTopicInNamesrvRequestHeader(topic="orders", cluster_name="C2"))
        route = await peer.route()
        assert route is not None
        assert [data.broker_name for data in route.broker_datas] == ["broker-a"]
        await peer.ask(delete, {"topic": "orders", "clusterName": ""})
        assert await peer.route() is None
        await peer.ask(delete, {"topic": "orders"})


class TestLists:
    async def test_clusters_and_their_brokers(self, peer: Peer) -> None:
        await peer.register()
        await peer.register(address=SLAVE, broker_id=1)
        answer = await peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert answer.body == (
            b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},'
            b'"brokerName":"broker-a","cluster":"C1"}},"clusterAddrTable":{"C1":["broker-a"]}}'
        )

    async def test_topics_by_flag_and_by_cluster(self, peer: Peer) -> None:
        flags = {"plain": 0, "unit": 1, "sub": 2, "both": 3}
        await peer.register({name: TopicConfig(topic_name=name, topic_sys_flag=flag) for name, flag in flags.items()})
        assert (await topics(peer, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).topic_list == list(flags)
        assert (await topics(peer, RequestCode.GET_UNIT_TOPIC_LIST)).topic_list == ["unit", "both"]
        assert (await topics(peer, RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST)).topic_list == ["sub", "both"]
        assert (await topics(peer, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST)).topic_list == ["sub"]
        assert (await topics(peer, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="C1")).topic_list == list(flags)
        assert (await topics(peer, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="C9")).topic_list == []

    async def test_system_topics_come_with_a_broker_to_ask(self, peer: Peer) -> None:
        assert await topics(peer, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS) == TopicList([], None)
        await peer.register()
        assert await topics(peer, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS) == TopicList(["C1", "broker-a"], MASTER)


class TestKV:
    async def test_values_are_kept_listed_and_removed(self, peer: Peer) -> None:
        key = {"namespace": "n", "key": "k"}
        await peer.ask(RequestCode.GET_KV_CONFIG, key, expect=ResponseCode.QUERY_NOT_FOUND)
        await peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, key, expect=ResponseCode.QUERY_NOT_FOUND)
        await put(peer, "n", "k", "v")
        assert (await peer.ask(RequestCode.GET_KV_CONFIG, key)).ext_fields == {"value": "v"}
        answer = await peer.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, key)
        assert bodies.decode(KVTable, answer.body).table == {"k": "v"}
        await peer.ask(RequestCode.DELETE_KV_CONFIG, key)
        await peer.ask(RequestCode.DELETE_KV_CONFIG, key)
        await peer.ask(RequestCode.GET_KV_CONFIG, key, expect=ResponseCode.QUERY_NOT_FOUND)

    async def test_a_value_needs_a_namespace_and_a_key(self, peer: Peer) -> None:
        await peer.ask(RequestCode.PUT_KV_CONFIG, {"value": "v"}, expect=ResponseCode.SYSTEM_ERROR)


class TestBadInput:
    async def test_an_unknown_code_is_answered(self, peer: Peer) -> None:
        await peer.ask(31999, expect=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)

    @pytest.mark.parametrize(
        "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 64, b"\x16\x03\x01", b"\x00\x00\x00\x08\x00\x00\x00\x04{]{]"]
    )
    async def test_garbage_closes_that_connection_only(self, peer: Peer, server: NameServer, garbage: bytes) -> None:
        await peer.register()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(garbage)
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
        assert await peer.route() is not None

    async def test_a_port_in_use_is_a_clear_error(self, server: NameServer, clock: TestClock) -> None:
        second = NameServer(host="127.0.0.1", port=server.port, clock=clock, data_dir=None)
        with pytest.raises(RemotingError, match=f"cannot listen on 127.0.0.1:{server.port}"):
            await second.__aenter__()


async def test_clients_are_answered_while_a_large_registration_is_read(
    broker: Peer, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE", 0.0)  # a slice ends after each step, on any machine
    await peer.register()
    topics = {f"t{number}": TopicConfig(topic_name=f"t{number}") for number in range(15_000)}
    registering = asyncio.ensure_future(broker.register(topics, name="broker-b", version=2, compressed=True))
    answered = 0
    while not registering.done():
        assert await peer.route() is not None
        answered += 1
    await registering
    assert answered > 20
    route = await peer.route("t14999")
    assert route is not None
    assert [data.broker_name for data in route.queue_datas] == ["broker-b"]


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        (TopicConfig(topic_name="t", read_queue_nums=2**31 - 1), "2147483647 and 16 queues, not 0 to 65535"),
        (TopicConfig(topic_name="t", write_queue_nums=-1), "16 and -1 queues"),
        (TopicConfig(topic_name="t" * 301), "a name of 301 characters, the limit is 300"),
    ],
)
async def test_a_topic_that_no_client_could_use_is_not_registered(
    broker: Peer, peer: Peer, topic: TopicConfig, reason: str
) -> None:
    answer = await broker.register({topic.topic_name: topic}, expect=ResponseCode.SYSTEM_ERROR)
    assert reason in (answer.remark or "")
    assert await peer.route(topic.topic_name) is None
