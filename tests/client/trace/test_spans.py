"""OpenTelemetry spans of sends and listeners, as OpenTelemetry's own SDK records them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from opentelemetry import trace as telemetry
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from pyromq.client.listener.outcomes import COMMIT, ROLLBACK, RetryLater
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.client.send.transaction_producer import TransactionProducer
from pyromq.client.trace.config import Trace
from pyromq.errors import BrokerError, InvalidMessage
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.headers.transactions import TransactionState
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import Heard

SPANS = Trace(messages=False)


@pytest.fixture(scope="session")
def exporter() -> InMemorySpanExporter:
    """Where the spans of this process go: a provider can be set only once."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    telemetry.set_tracer_provider(provider)
    return kept


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[InMemorySpanExporter]:
    exporter.clear()
    yield exporter
    exporter.clear()


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def context_of(span: ReadableSpan) -> SpanContext:
    context: SpanContext | None = span.context
    assert context is not None
    return context


def traceparent(span: ReadableSpan) -> str:
    context = context_of(span)
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


async def test_a_send_is_a_span_that_says_what_went_where(
    cluster: LocalCluster, spans: InMemorySpanExporter, topic: str
) -> None:
    async with Producer("shop", cluster.namesrv, trace=SPANS) as producer:
        result = await producer.send(Message(topic=topic, body=b"12345", tags="created", keys=["o-1"]))
        client_id = producer.client_id
    (span,) = spans.get_finished_spans()
    host, _, port = cluster.brokers[0].address.rpartition(":")
    assert (span.name, span.kind, span.status.status_code) == (f"send {topic}", SpanKind.PRODUCER, StatusCode.UNSET)
    assert dict(span.attributes or {}) == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.client.id": client_id,
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": str(result.queue.queue_id),
        "messaging.message.id": result.message_id,
        "messaging.message.body.size": 5,
        "messaging.rocketmq.message.tag": "created",
        "messaging.rocketmq.message.keys": ("o-1",),
        "messaging.rocketmq.message.type": "normal",
        "server.address": host,
        "server.port": int(port),
    }


async def test_a_listener_runs_inside_a_span_whose_parent_is_the_send(
    cluster: LocalCluster, spans: InMemorySpanExporter, topic: str, group: str
) -> None:
    inside: list[SpanContext] = []

    async def listen(message: MessageExt) -> None:
        inside.append(telemetry.get_current_span().get_span_context())

    async with Producer("shop", cluster.namesrv, trace=SPANS) as producer:
        with telemetry.get_tracer("test").start_as_current_span("checkout") as checkout:
            result = await producer.send(Message(topic=topic, body=b"x", tags="t"))
    async with PushConsumer(
        group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", trace=SPANS
    ) as consumer:
        client_id = consumer.client_id
        await eventually(lambda: len(named(spans, f"process {topic}")) == 1)
    (sent,), (processed,) = named(spans, f"send {topic}"), named(spans, f"process {topic}")
    assert sent.parent == checkout.get_span_context()
    assert processed.parent is not None
    assert (processed.parent.span_id, processed.parent.is_remote) == (context_of(sent).span_id, True)
    assert [link.context.span_id for link in processed.links] == [context_of(sent).span_id]
    assert context_of(processed).trace_id == checkout.get_span_context().trace_id
    assert inside == [processed.context]
    assert (processed.kind, processed.status.status_code) == (SpanKind.CONSUMER, StatusCode.UNSET)
    assert dict(processed.attributes or {}) == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.client.id": client_id,
        "messaging.consumer.group.name": group,
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": str(result.queue.queue_id),
        "messaging.message.id": result.message_id,
        "messaging.message.body.size": 1,
        "messaging.rocketmq.message.tag": "t",
        "messaging.rocketmq.consumption_model": "clustering",
    }


async def test_a_plain_listener_runs_inside_its_span_on_its_thread(
    cluster: LocalCluster, spans: InMemorySpanExporter, topic: str, group: str
) -> None:
    inside: list[SpanContext] = []

    def listen(message: MessageExt) -> None:
        inside.append(telemetry.get_current_span().get_span_context())

    async with Producer("shop", cluster.namesrv, trace=SPANS) as producer:
        await producer.send(Message(topic=topic, body=b"x"))
        await producer.send(Message(topic=topic, body=b"y"))
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", trace=SPANS):
        await eventually(lambda: len(named(spans, f"process {topic}")) == 2)
    assert {one.span_id for one in inside} == {context_of(one).span_id for one in named(spans, f"process {topic}")}


async def test_a_retry_belongs_to_the_same_send(
    cluster: LocalCluster, spans: InMemorySpanExporter, topic: str, group: str
) -> None:
    async def listen(message: MessageExt) -> None:
        if not message.reconsume_times:
            raise RetryLater(delay=0.1)

    async with Producer("shop", cluster.namesrv, trace=SPANS) as producer:
        await producer.send(Message(topic=topic, body=b"x"))
    async with PushConsumer(
        group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", trace=SPANS, clock=cluster.clock
    ):

        async def twice() -> bool:
            await cluster.clock.advance_async(seconds=5)
            return len(named(spans, f"process {topic}")) == 2

        await eventually(twice)
    (sent,), processed = named(spans, f"send {topic}"), named(spans, f"process {topic}")
    assert [one.parent and one.parent.span_id for one in processed] == [context_of(sent).span_id] * 2
    assert [(one.attributes or {}).get("error.type") for one in processed] == ["RetryLater", None]


async def test_a_batch_of_messages_is_linked_to_every_send(
    cluster: LocalCluster, spans: InMemorySpanExporter, topic: str, group: str
) -> None:
    taken = asyncio.Event()

    async def listen(messages: list[MessageExt]) -> None:
        if len(messages) > 1:
            taken.set()

    async with Producer("shop", cluster.namesrv, trace=SPANS) as producer:
        queue = (await producer.send(Message(topic=topic, body=b"first"))).queue
        for number in range(3):
            await producer.send(Message(topic=topic, body=b"%d" % number), queue=queue)
        await producer.send_batch([Message(topic=topic, body=b"a"), Message(topic=topic, body=b"b")], queue=queue)
    async with PushConsumer(
        group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", batch_size=10, trace=SPANS
    ):
        await taken.wait()
    sends = named(spans, f"send {topic}")
    assert [(one.attributes or {}).get("messaging.batch.message_count") for one in sends] == [None] * 4 + [2]
    processed = named(spans, f"process {topic}")
    linked = [link.context.span_id for one in processed for link in one.links]
    assert linked == [context_of(one).span_id for one in (*sends, sends[-1])]
    several = [one for one in processed if len(one.links) > 1]
    assert [one.parent for one in several] == [None] * len(several)


async def test_what_fails_is_an_error(
    cluster: LocalCluster, spans: InMemorySpanExporter, topic: str, group: str
) -> None:
    async def listen(message: MessageExt) -> None:
        raise ValueError("not today")

    async with Producer("shop", cluster.namesrv, trace=SPANS) as producer:
        with pytest.raises(InvalidMessage):
            await producer.send(Message(topic=topic, body=b""))
        with pytest.raises(InvalidMessage):
            await producer.send_batch([])
        await producer.send(Message(topic=topic, body=b"x"))
    async with PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", trace=SPANS):
        await eventually(lambda: len(named(spans, f"process {topic}")) == 1)
    failed, empty, _, processed = spans.get_finished_spans()
    for span, error in ((failed, "InvalidMessage"), (empty, "InvalidMessage"), (processed, "ValueError")):
        assert span.status.status_code is StatusCode.ERROR
        assert (span.attributes or {})["error.type"] == error
        assert [event.name for event in span.events] == ["exception"]


async def test_one_span_covers_all_attempts(spans: InMemorySpanExporter, topic: str) -> None:
    async with LocalCluster() as cluster, Producer("shop", cluster.namesrv, trace=SPANS, retries=2) as producer:
        await producer.send(Message(topic=topic, body=b"x"))
        server = cluster.brokers[0].server
        assert server is not None
        take = server.handlers[RequestCode.SEND_MESSAGE_V2]
        refusals = iter([True, True])

        def fail_twice(command: object, connection: object) -> object:
            if next(refusals, False):
                raise BrokerError("not today")
            return take(command, connection)  # type: ignore[arg-type]

        server.handlers[RequestCode.SEND_MESSAGE_V2] = fail_twice  # type: ignore[assignment]
        await producer.send(Message(topic=topic, body=b"x"))
    assert [span.status.status_code for span in spans.get_finished_spans()] == [StatusCode.UNSET] * 2


async def test_kinds_of_messages(cluster: LocalCluster, spans: InMemorySpanExporter, topic: str) -> None:
    async def execute(message: MessageExt) -> TransactionState:
        return ROLLBACK

    async def check(message: MessageExt) -> TransactionState:
        return COMMIT

    message = Message(topic=topic, body=b"x")
    async with TransactionProducer("shop", cluster.namesrv, check=check, trace=SPANS, namespace="north") as producer:
        await producer.send(message, order_key="o-1")
        await producer.send(message, level=3)
        await producer.send_oneway(message)
        await producer.send_in_transaction(message, execute)
    ordered, delayed, oneway, transaction = spans.get_finished_spans()
    kinds = [kind_of(span) for span in (ordered, delayed, oneway, transaction)]
    assert kinds == ["fifo", "delay", "normal", "transaction"]
    assert (ordered.attributes or {})["messaging.rocketmq.message.group"] == "o-1"
    assert (delayed.attributes or {})["messaging.rocketmq.message.delay_time_level"] == 3
    assert (ordered.attributes or {})["messaging.rocketmq.namespace"] == "north"
    assert [(event.name, dict(event.attributes or {})) for event in transaction.events] == [
        ("transaction ended", {"state": "ROLLBACK"})
    ]


def kind_of(span: ReadableSpan) -> object:
    return (span.attributes or {})["messaging.rocketmq.message.type"]


async def test_the_context_travels_in_the_properties_of_every_kind_of_send(
    cluster: LocalCluster, spans: InMemorySpanExporter, topic: str, group: str
) -> None:
    heard = Heard()
    async with (
        Producer("shop", cluster.namesrv, trace=SPANS) as producer,
        Producer("shop", cluster.namesrv, trace=SPANS, linger=0.01) as lingering,
        PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest"),
    ):
        await producer.send(Message(topic=topic, body=b"0"))
        await lingering.send(Message(topic=topic, body=b"1"))
        await producer.send_batch([Message(topic=topic, body=b"2")])
        await producer.send_oneway(Message(topic=topic, body=b"3"))
        await producer.send(Message(topic=topic, body=b"4", properties={"traceparent": "its own"}))
        await producer.send(Message(topic=topic, body=b"5", properties={"full": "x" * 32_000}))
        await heard.wait_for(6)
    carried = [one.properties.get("traceparent") for one in by_body(heard.messages)]
    sends: list[str | None] = [traceparent(span) for span in named(spans, f"send {topic}")]
    assert carried == [*sends[:4], "its own", None]


def by_body(messages: Sequence[MessageExt]) -> list[MessageExt]:
    return sorted(messages, key=lambda message: message.body)


async def test_without_the_switch_there_is_no_span_and_no_context(
    cluster: LocalCluster, spans: InMemorySpanExporter, topic: str, group: str
) -> None:
    heard = Heard()
    async with (
        Producer("shop", cluster.namesrv) as producer,
        Producer("shop", cluster.namesrv, trace=Trace(spans=False)) as other,
        PushConsumer(group, cluster.namesrv, {topic: "*"}, heard, start_from="earliest"),
    ):
        with telemetry.get_tracer("test").start_as_current_span("checkout"):
            await producer.send(Message(topic=topic, body=b"1"))
            await other.send(Message(topic=topic, body=b"2"))
        await heard.wait_for(2)
    assert [span.name for span in spans.get_finished_spans()] == ["checkout"]
    assert all("traceparent" not in message.properties for message in heard.messages)
