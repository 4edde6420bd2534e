"""Consumers that subscribe to a filter function: what comes, and what is refused."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq import BrokerError, Function, LitePullConsumer, Message, MessageExt, NotSupported, Producer
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import response
from pyromq.remoting.server import RemotingServer
from pyromq.testing import LocalCluster, eventually
from tests.client.helpers import read, register_broker

DOCUMENT = (Path(__file__).parents[3] / "docs" / "filter_functions.md").read_text()
MODULE, CONSUMER = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    """Have a broker with the function of the documentation."""
    (tmp_path / "shop_filters.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    with LocalCluster(settings={"pyromqFilterFunctions": "large=shop_filters:is_large"}) as cluster:
        yield cluster
    del sys.modules["shop_filters"]


async def send_amounts(cluster: LocalCluster) -> None:
    async with Producer("shop", cluster.namesrv) as producer:
        for amount in (1, 500, 3, 200):
            await producer.send(Message(topic="orders", body=b"%d" % amount, properties={"amount": str(amount)}))


async def test_a_pull_consumer_gets_what_the_function_wants(cluster: LocalCluster) -> None:
    await send_amounts(cluster)
    subscriptions = {"orders": Function("large")}
    async with LitePullConsumer("audit", cluster.namesrv, subscriptions, start_from="earliest") as consumer:
        assert sorted(message.body for message in await read(consumer, 2)) == [b"200", b"500"]
        await eventually(lambda: sum(consumer.position(queue) or 0 for queue in consumer.assignment) == 4)
        assert await consumer.poll(timeout=0.05) == []


async def test_the_documentation_is_true_for_a_push_consumer(cluster: LocalCluster) -> None:
    await send_amounts(cluster)
    received: list[MessageExt] = []
    code = CONSUMER.replace("127.0.0.1:9876", cluster.namesrv).replace("...", "received.append(message)")
    names: dict[str, Any] = {"received": received, "clock": cluster.clock}
    exec(code.replace(", bill)", ', bill, start_from="earliest", clock=clock)'), names)
    async with names["consumer"]:
        await eventually(lambda: len(received) >= 2)
        await cluster.clock.advance_async(seconds=1)
    assert sorted(message.body for message in received) == [b"200", b"500"]


async def test_a_name_that_the_broker_does_not_have_stops_the_start(cluster: LocalCluster) -> None:
    await send_amounts(cluster)
    with pytest.raises(BrokerError, match="no filter function 'huge'; it has large"):
        await LitePullConsumer("audit", cluster.namesrv, {"orders": Function("huge")}).start()


@pytest.mark.parametrize("answers", [True, False], ids=["Apache's", "one without heartbeats"])
async def test_another_broker_is_not_supported_and_hears_nothing_of_it(cluster: LocalCluster, answers: bool) -> None:
    asked: list[int] = []

    def answer(command: Any, connection: Any) -> Any:
        asked.append(command.code)
        return response(command)

    handlers: dict[int, Any] = dict.fromkeys([RequestCode.CHECK_CLIENT_CONFIG, RequestCode.PULL_MESSAGE], answer)
    if answers:
        handlers[RequestCode.HEART_BEAT] = lambda command, connection: response(command)
    server = RemotingServer(handlers, host="127.0.0.1", port=0, clock=cluster.clock)
    async with server, await BrokerApi.connect(cluster.namesrv) as api:
        await register_broker(api, "other", f"127.0.0.1:{server.port}", "elsewhere")
        with pytest.raises(NotSupported, match="is not PyroMQ's and has no filter functions"):
            await LitePullConsumer("audit", cluster.namesrv, {"elsewhere": Function("large")}).start()
    assert asked == []
