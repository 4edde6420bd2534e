from __future__ import annotations

import pytest

from pyromq.client.hooks import SendContext, SendHook
from pyromq.client.send.producer import Producer
from pyromq.errors import BrokerError
from pyromq.protocol.messages.message import Message
from pyromq.testing import LocalCluster, eventually


class Recorder(SendHook):
    def __init__(self) -> None:
        self.before_ids: list[str] = []
        self.finished: list[SendContext] = []

    def check(self, context: SendContext) -> None:
        if b"secret" in context.message.body:
            raise PermissionError("secrets do not leave the house")

    def before(self, context: SendContext) -> None:
        self.before_ids.append(context.message_id)
        context.notes["seen"] = True

    def after(self, context: SendContext) -> None:
        assert context.notes == {"seen": True}
        self.finished.append(context)


class Broken(SendHook):
    def before(self, context: SendContext) -> None:
        raise RuntimeError("a hook's own trouble")

    def after(self, context: SendContext) -> None:
        raise RuntimeError("a hook's own trouble")


async def test_hooks_see_each_attempt_with_its_result(cluster: LocalCluster, topic: str) -> None:
    recorder = Recorder()
    async with Producer("p", cluster.namesrv, hooks=[Broken(), recorder]) as producer:
        result = await producer.send(Message(topic=topic, body=b"x"))
        await producer.send(Message(topic=topic, body=b"y"), order_key="k")
        await producer.send_batch([Message(topic=topic, body=b"1"), Message(topic=topic, body=b"2")])
    first, second, batch = recorder.finished
    assert (first.result, first.error, first.oneway) == (result, None, False)
    assert (first.group, first.message.body, first.queue) == ("p", b"x", result.queue)
    assert first.address == cluster.brokers[0].address
    assert second.result is not None
    assert batch.message_id.count(",") == 1
    assert recorder.before_ids == [context.message_id for context in recorder.finished]


async def test_hooks_see_what_failed_and_every_attempt(topic: str) -> None:
    recorder = Recorder()
    async with LocalCluster() as cluster, Producer("p", cluster.namesrv, hooks=[recorder], retries=2) as producer:
        await producer.send(Message(topic=topic, body=b"x"))
        server = cluster.brokers[0].server
        assert server is not None
        server.handlers[310] = refuse
        with pytest.raises(BrokerError):
            await producer.send(Message(topic=topic, body=b"x"))
    assert [type(context.error) for context in recorder.finished] == [type(None)] + [BrokerError] * 3


def refuse(command: object, connection: object) -> None:
    raise BrokerError("not today")


async def test_a_hook_may_refuse_a_message(cluster: LocalCluster, topic: str) -> None:
    recorder = Recorder()
    async with Producer("p", cluster.namesrv, hooks=[recorder]) as producer:
        with pytest.raises(PermissionError, match="do not leave"):
            await producer.send(Message(topic=topic, body=b"a secret"))
        with pytest.raises(PermissionError):
            await producer.send_oneway(Message(topic=topic, body=b"a secret"))
        await producer.send_oneway(Message(topic=topic, body=b"harmless"))
        await eventually(lambda: len(recorder.finished) == 1)
    assert recorder.finished[0].oneway
