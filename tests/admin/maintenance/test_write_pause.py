"""A broker whose writes are paused takes no message, nobody's send fails, and it comes back as it was."""

from __future__ import annotations

import asyncio

import pytest

from pyromq import Message, MessageExt, Producer, PushConsumer, RetryLater
from pyromq.admin import AdminClient
from pyromq.broker.config.keys import BROKER_KEYS
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.calls.namesrv_calls import NamesrvCalls
from pyromq.errors import ClientError
from pyromq.protocol.codes import PERM_READ, PERM_WRITE, RequestCode
from pyromq.testing import LocalCluster, eventually


async def writes(admin: AdminClient) -> list[str]:
    return [broker.writes for broker in (await admin.cluster_status()).brokers]


async def perms(api: BrokerApi, topic: str) -> dict[str, int]:
    return {queue.broker_name: queue.perm for queue in (await api.route(topic)).queue_datas}


async def test_producers_leave_a_paused_broker_without_a_failed_send(admin: AdminClient, pair: LocalCluster) -> None:
    await admin.topics.create("orders", read_queues=2, write_queues=2)
    places: list[str] = []
    is_over = False

    async def produce(producer: Producer) -> None:
        while not is_over:
            sent = await producer.send(Message(topic="orders", body=b"x"))
            places.append(sent.queue.broker_name)
            await asyncio.sleep(0)

    async with Producer("load", pair.namesrv, clock=pair.clock) as producer, asyncio.TaskGroup() as group:
        group.create_task(produce(producer))
        await eventually(lambda: {"broker-a", "broker-b"} <= set(places))
        phases = admin.pause_writes("broker-a", grace=35)
        assert await anext(phases) == "leaving"
        assert await writes(admin) == ["leaving", "open"]
        paused = asyncio.ensure_future(anext(phases))
        await pair.clock.advance_async(seconds=31, step=31)
        places.clear()
        await eventually(lambda: len(places) > 20)
        assert set(places) == {"broker-b"}, "they left before it refused anything"
        await pair.clock.advance_async(seconds=5)
        assert await paused == "paused"
        assert await writes(admin) == ["paused", "open"]
        is_over = True


async def test_a_paused_broker_refuses_sends_of_whoever_still_comes(
    admin: AdminClient, api: BrokerApi, pair: LocalCluster
) -> None:
    await admin.topics.create("orders", read_queues=2, write_queues=2)
    async with Producer("late", pair.namesrv) as producer:
        await producer.send(Message(topic="orders", body=b"it knows the route"))
        assert [phase async for phase in admin.pause_writes("broker-a", grace=0)] == ["leaving", "paused"]
        before = await ends(admin)
        for _ in range(8):
            sent = await producer.send(Message(topic="orders", body=b"x"))
            assert sent.queue.broker_name == "broker-b"
        assert (await ends(admin))["broker-a"] == before["broker-a"]
    assert pair.brokers[0].server is not None
    assert pair.brokers[0].server.http_info()["sends_refused_while_paused"]
    findings = (await admin.cluster_status("broker-a")).findings
    assert findings == (
        "broker-a refuses messages: its writes are paused (`pyromq cluster resume-writes --broker broker-a`)",
    )
    assert [phase async for phase in admin.pause_writes("broker-a", grace=3600)] == ["paused"], "it is already"


async def ends(admin: AdminClient) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in (await admin.topics.describe("orders")).queues:
        found[row.queue.broker_name] = found.get(row.queue.broker_name, 0) + row.max_offset
    return found


async def test_a_pause_survives_a_restart_and_new_topics(
    admin: AdminClient, api: BrokerApi, pair: LocalCluster
) -> None:
    async for _ in admin.pause_writes("broker-a", grace=0):
        pass
    await admin.topics.create("orders", read_queues=2, write_queues=2)
    assert await perms(api, "orders") == {"broker-a": PERM_READ, "broker-b": PERM_READ | PERM_WRITE}
    pair.stop_broker(0)
    pair.start_broker(0)
    await eventually(lambda: _is(admin, ["paused", "open"]))
    assert (await perms(api, "orders"))["broker-a"] == PERM_READ


async def _is(admin: AdminClient, wanted: list[str]) -> bool:
    return await writes(admin) == wanted


async def test_resuming_gives_topics_the_permissions_that_they_had(
    admin: AdminClient, api: BrokerApi, pair: LocalCluster
) -> None:
    await admin.topics.create("orders", read_queues=2, write_queues=2)
    await admin.topics.create("closed", read_queues=2, write_queues=2, perm="r")
    async for _ in admin.pause_writes("broker-a", grace=0):
        pass
    assert await perms(api, "orders") == {"broker-a": PERM_READ, "broker-b": PERM_READ | PERM_WRITE}
    state = await admin.resume_writes("broker-a")
    assert (state.is_paused, state.unrouted_at) == (False, ())
    assert set((await perms(api, "orders")).values()) == {PERM_READ | PERM_WRITE}
    assert set((await perms(api, "closed")).values()) == {PERM_READ}, "mqadmin's addWritePerm would open it"
    assert await writes(admin) == ["open", "open"]


async def test_a_pause_that_was_stopped_half_way_is_shown_and_taken_back(
    admin: AdminClient, api: BrokerApi, pair: LocalCluster
) -> None:
    await NamesrvCalls(api).wipe_write_permission("broker-b")  # as mqadmin's wipeWritePerm
    status = await admin.cluster_status()
    assert [broker.writes for broker in status.brokers] == ["open", "leaving"]
    assert status.findings == (
        "broker-b takes messages, but a name server routes none to it: a pause of its writes was not finished",
    )
    await admin.resume_writes("broker-b")
    assert await writes(admin) == ["open", "open"]


async def test_the_plan_names_the_brokers_that_are_left(admin: AdminClient) -> None:
    plan = await admin.plan_pause_writes("broker-a")
    assert (plan.others, plan.state.is_paused, plan.state.refuses_all) == (("broker-b",), False, True)
    async for _ in admin.pause_writes("broker-b", grace=0):
        pass
    assert (await admin.plan_pause_writes("broker-a")).others == ()


async def test_retries_of_a_paused_broker_go_to_another_one(admin: AdminClient, pair: LocalCluster) -> None:
    await admin.topics.create("orders", read_queues=1, write_queues=1)
    async with Producer("shop", pair.namesrv) as producer:
        route = await admin.topics.describe("orders")
        (queue,) = [row.queue for row in route.queues if row.queue.broker_name == "broker-a"]
        await producer.send(Message(topic="orders", body=b"x"), queue=queue)
    async for _ in admin.pause_writes("broker-a", grace=0):
        pass
    seen: list[MessageExt] = []

    async def fail_once(message: MessageExt) -> None:
        seen.append(message)
        if len(seen) == 1:
            raise RetryLater(delay=0.1)

    async with PushConsumer(
        "billing", pair.namesrv, subscriptions={"orders": "*"}, listener=fail_once, start_from="earliest"
    ):
        await eventually(lambda: len(seen) == 2, seconds=30)
    assert [message.broker_name for message in seen] == ["broker-a", "broker-b"]


async def test_a_broker_without_the_setting_gets_another_permission_and_that_is_said(
    admin: AdminClient, pair: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = pair.brokers[0].server
    assert server is not None
    monkeypatch.delitem(BROKER_KEYS, "pyromqWritesPaused")  # as Apache's
    assert (await admin.plan_pause_writes("broker-a")).state.refuses_all is False
    assert [phase async for phase in admin.pause_writes("broker-a", grace=0)] == ["leaving", "paused"]
    assert (server.config.permission, server.config.writes_paused) == (PERM_READ, False)
    assert await writes(admin) == ["paused", "open"]
    await admin.resume_writes("broker-a")
    assert server.config.permission == PERM_READ | PERM_WRITE
    assert await writes(admin) == ["open", "open"]


async def test_an_unknown_broker_is_an_error(admin: AdminClient) -> None:
    for call in (admin.plan_pause_writes, admin.resume_writes):
        with pytest.raises(ClientError, match="no name server knows a broker 'broker-x'"):
            await call("broker-x")


async def test_slaves_are_paused_too_and_one_that_is_promoted_refuses() -> None:
    with LocalCluster(1, slaves=1) as cluster:
        async with AdminClient(cluster.namesrv, clock=cluster.clock) as admin:
            async for _ in admin.pause_writes("broker-a", grace=0):
                pass
            slave = cluster.slaves[0].server
            assert slave is not None
            assert slave.config.writes_paused
            assert (await admin.plan_pause_writes("broker-a")).state.differing_slaves == ()
            await admin.promote("broker-a")
            await eventually(lambda: slave.is_master)
            assert await writes(admin) == ["paused", ""]
            state = await admin.resume_writes("broker-a")
            assert (state.is_paused, state.differing_slaves, slave.config.writes_paused) == (False, (), False)


async def test_a_slave_that_cannot_be_told_is_named() -> None:
    with LocalCluster(1, slaves=1) as cluster:
        async with AdminClient(cluster.namesrv, clock=cluster.clock) as admin:
            slave = cluster.slaves[0]
            assert slave.server is not None
            del slave.server.handlers[RequestCode.UPDATE_BROKER_CONFIG]
            async for _ in admin.pause_writes("broker-a", grace=0):
                pass
            assert (await admin.plan_pause_writes("broker-a")).state.differing_slaves == (slave.address,)
            plan = await admin.settings.set({"fileReservedTime": "48"})
            assert [change.server.title for change in plan.changes] == ["broker-a"]
            assert list(plan.silent_slaves) == ["broker-a slave 1"]
