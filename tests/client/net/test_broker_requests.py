"""What a broker asks of a client, over the client's own connection."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.client.listener.outcomes import COMMIT, ROLLBACK, DeadLetter, RetryLater
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.protocol.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumeResult,
    ConsumerRunningInfo,
    GetConsumerStatusBody,
    MessageQueueOffset,
    ResetOffsetBody,
    ResetOffsetBodyForC,
    decode,
    encode,
)
from pyromq.protocol.codes import LanguageCode, RequestCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers import Header
from pyromq.protocol.headers.clients import (
    ConsumeMessageDirectlyRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusFromClientRequestHeader,
    ResetConsumerClientOffsetRequestHeader,
)
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard, committed, fill


async def ask(
    cluster: LocalCluster, group: str, code: RequestCode, header: Header, body: bytes = b"", *, oneway: bool = False
) -> RemotingCommand | None:
    """Send a request to the first member of a group, as its broker would."""
    server = cluster.brokers[0].server
    assert server is not None
    command = request(code, header, body, language=LanguageCode.JAVA)

    async def send() -> RemotingCommand | None:
        connection = server.clients.members(group)[0]
        if oneway:
            connection.oneway(command)
            return None
        return await connection.request(command, 10.0)

    return await asyncio.to_thread(cluster._portal.call, send())


async def answer_of(
    cluster: LocalCluster, group: str, code: RequestCode, header: Header, body: bytes = b""
) -> RemotingCommand:
    answer = await ask(cluster, group, code, header, body)
    assert answer is not None
    assert answer.language is LanguageCode.PYTHON or answer.code != 0
    return answer


async def test_running_info_tells_what_goes_on_inside(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 40)
    heard = Heard()
    async with PushConsumer(
        group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest", concurrency=7
    ) as consumer:
        await heard.wait_for(40)
        header = GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id=consumer.client_id)
        answer = await answer_of(cluster, group, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    info = decode(ConsumerRunningInfo, answer.body)
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert info.properties["PROP_CONSUMEORDERLY"] == "false"
    assert info.properties["PROP_THREADPOOL_CORE_SIZE"] == "7"
    assert info.properties["PROP_NAMESERVER_ADDR"] == f"{cluster.namesrv};"
    assert info.properties["PROP_CONSUMER_START_TIMESTAMP"].isdigit()
    assert {data.topic for data in info.subscription_set} == {topic, f"%RETRY%{group}"}
    queues = {queue: held for queue, held in info.mq_table.items() if queue.topic == topic}
    assert [held.commit_offset for held in queues.values()] == [10] * 4
    assert all(held.locked and held.last_pull_timestamp > 0 for held in queues.values())
    assert info.status_table[topic].consume_ok_tps > 0
    assert info.status_table[topic].pull_tps > 0
    assert info.status_table[topic].consume_failed_msgs == 0
    assert info.jstack is None


async def test_running_info_has_the_stacks_of_threads_and_tasks_when_asked(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 1)
    begun, gate = asyncio.Event(), asyncio.Event()

    async def wait_for_the_gate(message: MessageExt) -> None:
        begun.set()
        await gate.wait()

    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, wait_for_the_gate, start_from="earliest") as consumer:
        await begun.wait()
        header = GetConsumerRunningInfoRequestHeader(
            consumer_group=group, client_id=consumer.client_id, jstack_enable=True
        )
        answer = await answer_of(cluster, group, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        gate.set()
    stacks = decode(ConsumerRunningInfo, answer.body).jstack
    assert stacks is not None
    assert '"MainThread" thread' in stacks
    assert '"pyromq listener" task' in stacks
    assert "in wait_for_the_gate" in stacks


async def test_a_polling_consumer_tells_of_itself_too(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 4)
    async with LitePullConsumer(group, cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        header = GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id=consumer.client_id)
        answer = await answer_of(cluster, group, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        info = decode(ConsumerRunningInfo, answer.body)
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
        assert {queue.topic for queue in info.mq_table} == {topic}
        direct = ConsumeMessageDirectlyRequestHeader(consumer_group=group)
        body = await stored_record(cluster, topic)
        answer = await answer_of(cluster, group, RequestCode.CONSUME_MESSAGE_DIRECTLY, direct, body)
        assert answer.code == 1
        assert "polls and has no listener" in (answer.remark or "")


async def test_an_unknown_group_is_an_error(cluster: LocalCluster, producer: Producer, topic: str, group: str) -> None:
    await fill(producer, topic, 1)
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard()) as consumer:
        header = GetConsumerRunningInfoRequestHeader(consumer_group="no-such", client_id=consumer.client_id)
        answer = await answer_of(cluster, group, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        assert (answer.code, answer.remark) == (1, "this client has no consumer in the group no-such")


async def test_the_offsets_reached_are_told(cluster: LocalCluster, producer: Producer, topic: str, group: str) -> None:
    await fill(producer, topic, 20)
    heard = Heard()
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest"):
        await heard.wait_for(20)
        header = GetConsumerStatusFromClientRequestHeader(topic=topic, group=group)
        answer = await answer_of(cluster, group, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header)
        table = decode(GetConsumerStatusBody, answer.body).message_queue_table
        assert sorted(table.values()) == [5, 5, 5, 5]
        header = GetConsumerStatusFromClientRequestHeader(topic=topic, group="no-such")
        answer = await answer_of(cluster, group, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header)
        assert decode(GetConsumerStatusBody, answer.body).message_queue_table == {}


@pytest.mark.parametrize("for_cpp", [False, True])
async def test_a_reset_is_obeyed_and_committed(
    cluster: LocalCluster, producer: Producer, topic: str, group: str, for_cpp: bool
) -> None:
    await fill(producer, topic, 20)
    heard = Heard()
    async with PushConsumer(
        group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest", clock=cluster.clock
    ) as consumer:
        await heard.wait_for(20)
        await consumer.commit()
        queues = consumer.assignment
        table = {queues[0]: 2, queues[1]: 0, queues[2]: -1}
        body = encode(
            ResetOffsetBodyForC(
                offset_table=[
                    MessageQueueOffset(
                        topic=queue.topic, broker_name="broker-a", queue_id=queue.queue_id, offset=offset
                    )
                    for queue, offset in table.items()
                ]
            )
            if for_cpp
            else ResetOffsetBody(offset_table=table)
        )
        header = ResetConsumerClientOffsetRequestHeader(topic=topic, group=group, timestamp=0)
        await ask(cluster, group, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body, oneway=True)
        await heard.wait_for(20 + 3 + 5)
        await cluster.clock.advance_async(seconds=1)
        assert len(heard.messages) == 28
        await consumer.commit()
    async with await BrokerApi.connect(cluster.namesrv) as api:
        assert await committed(api, cluster.brokers[0].address, group, topic) == [5] * 4


async def test_after_a_reset_what_was_in_hand_counts_no_more(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    queue = (await producer.queues(topic))[0]
    for number in range(6):
        await producer.send(Message(topic=topic, body=b"%d" % number), queue=queue)
    gate = asyncio.Event()
    seen: list[int] = []

    async def listen(message: MessageExt) -> None:
        seen.append(message.queue_offset)
        if len(seen) == 6:
            await gate.wait()

    async with (
        PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", concurrency=1) as consumer,
        await BrokerApi.connect(cluster.namesrv) as api,
    ):
        await eventually(lambda: len(seen) == 6)
        header = ResetConsumerClientOffsetRequestHeader(topic=topic, group=group, timestamp=0)
        body = encode(ResetOffsetBody(offset_table={queue: 4}))
        await ask(cluster, group, RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body, oneway=True)

        async def reset() -> bool:
            return (await committed(api, cluster.brokers[0].address, group, topic))[queue.queue_id] == 4

        await eventually(reset)
        gate.set()
        await eventually(lambda: seen == [0, 1, 2, 3, 4, 5, 4, 5])
        await consumer.commit()
        assert (await committed(api, cluster.brokers[0].address, group, topic))[queue.queue_id] == 6


async def stored_record(cluster: LocalCluster, topic: str) -> bytes:
    server = cluster.brokers[0].server
    assert server is not None

    async def read() -> bytes:
        for queue_id in range(4):
            found = server.store.get(topic, queue_id, 0, 1)
            if found.count:
                return b"".join(bytes(view) for view in found.views)
        raise AssertionError("nothing is stored")

    return await asyncio.to_thread(cluster._portal.call, read())


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (None, ConsumeResult.CR_SUCCESS),
        ("nonsense", ConsumeResult.CR_SUCCESS),
        (COMMIT, ConsumeResult.CR_COMMIT),
        (ROLLBACK, ConsumeResult.CR_ROLLBACK),
        (RetryLater(5), ConsumeResult.CR_LATER),
        (DeadLetter("no"), ConsumeResult.CR_LATER),
        (ValueError("oops"), ConsumeResult.CR_THROW_EXCEPTION),
    ],
)
async def test_one_message_can_be_given_to_the_listener_directly(
    cluster: LocalCluster,
    producer: Producer,
    topic: str,
    group: str,
    orderly: bool,
    outcome: object,
    result: ConsumeResult,
) -> None:
    await fill(producer, topic, 1, tags=["direct"])
    seen: list[MessageExt] = []

    async def listen(message: MessageExt) -> object:
        seen.append(message)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    body = await stored_record(cluster, topic)
    async with PushConsumer(group, cluster.namesrv, {topic: "other"}, listen, orderly=orderly):
        header = ConsumeMessageDirectlyRequestHeader(consumer_group=group, broker_name="broker-a")
        answer = await answer_of(cluster, group, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, body)
    told = decode(ConsumeMessageDirectlyResult, answer.body)
    assert (told.consume_result, told.order, told.auto_commit) == (result, orderly, True)
    assert (told.remark is None) == (not isinstance(outcome, Exception))
    (message,) = seen
    assert (message.topic, message.broker_name, message.body) == (topic, "broker-a", f"{topic}/0".encode())


async def test_a_body_that_is_no_message_is_an_error(
    cluster: LocalCluster, producer: Producer, topic: str, group: str
) -> None:
    await fill(producer, topic, 1)
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, Heard()):
        header = ConsumeMessageDirectlyRequestHeader(consumer_group=group)
        answer = await answer_of(cluster, group, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, b"nonsense")
        assert answer.code == 1
