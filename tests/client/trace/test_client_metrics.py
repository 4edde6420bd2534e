"""What clients count, as prometheus-client's registry and OpenTelemetry's own SDK show it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from opentelemetry import metrics as telemetry
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import REGISTRY

from pyromq import blocking
from pyromq.client.listener.outcomes import RetryLater
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError, PyroMQError
from pyromq.protocol.messages.message import Message, MessageExt
from pyromq.testing import LocalCluster, eventually


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def test_prometheus_counts_sends_and_listener_calls_by_outcome(
    cluster: LocalCluster, topic: str, group: str
) -> None:
    seen: list[bytes] = []

    async def listen(message: MessageExt) -> None:
        seen.append(message.body)
        if message.body == b"again":
            raise RetryLater

    labels = {"group": group, "topic": topic}
    async with Producer(group, cluster.namesrv, metrics="prometheus") as producer:
        await producer.send(Message(topic, b"fine"))
        await producer.send_batch([Message(topic, b"fine"), Message(topic, b"again")])
        await producer.send_oneway(Message(topic, b"fine"))
    assert value("pyromq_client_sent_messages_total", **labels, outcome="SEND_OK") == 3
    assert value("pyromq_client_sent_messages_total", **labels, outcome="ONEWAY") == 1
    assert value("pyromq_client_send_seconds_count", **labels) == 3
    async with PushConsumer(
        f"{group}-2",
        cluster.namesrv,
        {topic: "*"},
        listen,
        start_from="earliest",
        metrics="prometheus",
    ):
        await eventually(lambda: len(seen) >= 4)
    labels = {"group": f"{group}-2", "topic": topic}
    assert value("pyromq_client_consumed_messages_total", **labels, outcome="SUCCESS") == 3
    assert value("pyromq_client_consumed_messages_total", **labels, outcome="FAILED") == 1
    assert value("pyromq_client_received_messages_total", **labels) == 4
    assert value("pyromq_client_listener_seconds_count", **labels) == 4
    assert value("pyromq_client_delivery_seconds_count", **labels) == 4


def test_a_send_that_fails_is_counted_by_its_exception(tmp_path: Path) -> None:
    with (
        LocalCluster(data=tmp_path) as own,
        blocking.Producer("lost", own.namesrv, clock=own.clock, retries=0, metrics="prometheus") as producer,
    ):
        producer.send(Message("lost", b"fine"))
        own.stop_broker(own.brokers[0])
        with pytest.raises(PyroMQError):
            producer.send(Message("lost", b"lost"))
    samples = [
        sample
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name == "pyromq_client_sent_messages_total" and sample.labels["group"] == "lost"
    ]
    assert {sample.labels["outcome"] for sample in samples} > {"SEND_OK"}


async def test_a_consumer_that_is_polled_counts_what_it_returns(cluster: LocalCluster, topic: str, group: str) -> None:
    async with Producer("shop", cluster.namesrv) as producer:
        await producer.send(Message(topic, b"one"))
    async with LitePullConsumer(
        group,
        cluster.namesrv,
        {topic: "*"},
        start_from="earliest",
        metrics="prometheus",
    ) as consumer:
        assert [message.body async for message in _first(consumer)] == [b"one"]
    labels = {"group": group, "topic": topic}
    assert value("pyromq_client_received_messages_total", **labels) == 1


async def _first(consumer: LitePullConsumer) -> AsyncIterator[MessageExt]:
    async for message in consumer:
        yield message
        return


async def test_opentelemetry_has_the_names_of_its_conventions(cluster: LocalCluster, topic: str) -> None:
    reader = InMemoryMetricReader()
    telemetry.set_meter_provider(MeterProvider([reader]))
    async with Producer("shop", cluster.namesrv, metrics="opentelemetry") as producer:
        await producer.send(Message(topic, b"one"))
    data = reader.get_metrics_data()
    assert data is not None
    found = {
        metric.name: metric.data.data_points[0].attributes
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert found.keys() >= {"messaging.client.sent.messages", "messaging.client.operation.duration"}
    has = dict(found["messaging.client.sent.messages"] or {})
    assert (has["messaging.system"], has["messaging.destination.name"]) == ("rocketmq", topic)
    assert "error.type" not in has


def test_a_wrong_value_is_one_line() -> None:
    with pytest.raises(ClientError, match='metrics= is "prometheus", "opentelemetry" or None, not True'):
        Producer("shop", metrics=True)  # type: ignore[arg-type]


def test_a_client_without_metrics_loads_neither_library() -> None:
    code = "import sys; from pyromq import Producer; Producer('shop'); print('prometheus_client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
