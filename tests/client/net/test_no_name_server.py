"""All name servers are away for ten minutes: running clients go on, and say so once."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.namesrv.server import NameServer
from pyromq.testing import TestClock
from tests.client.helpers import Heard, fill


def name_server(clock: TestClock, port: int = 0) -> NameServer:
    return NameServer(host="127.0.0.1", port=port, clock=clock, data_dir=None)


def broker(clock: TestClock, namesrv: str, path: Path) -> Broker:
    settings = {
        "listenPort": "0",
        "namesrvAddr": namesrv,
        "storePathRootDir": str(path),
        "diskSpaceWarningLevelRatio": "1",
        "brokerFastFailureEnable": "false",
    }
    return Broker(broker_config(settings, host="127.0.0.1"), clock)


async def test_running_clients_go_on_and_log_little(
    tmp_path: Path, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock, heard = TestClock(), Heard()
    async with AsyncExitStack() as stack:
        async with name_server(clock) as one, name_server(clock) as other:
            ports = one.port, other.port
            namesrv = f"{one.address};{other.address}"
            await stack.enter_async_context(broker(clock, namesrv, tmp_path))
            producer = await stack.enter_async_context(Producer("p", namesrv, clock=clock))
            await fill(producer, topic, 16)
            consumer = PushConsumer(group, namesrv, {topic: "*"}, heard, start_from="earliest", clock=clock)
            await stack.enter_async_context(consumer)
            await heard.wait_for(16)
            caplog.set_level(logging.INFO)
            caplog.clear()
        await clock.advance_async(minutes=10, step=5)
        await fill(producer, topic, 16)
        await heard.wait_for(32)
        assert len(about_name_servers(caplog)) <= 6, caplog.text  # three at each of two
        caplog.clear()
        async with name_server(clock, ports[0]), name_server(clock, ports[1]):
            await clock.advance_async(seconds=31)
            async with Producer("new", namesrv, clock=clock) as newcomer:
                await fill(newcomer, topic, 16)
            await heard.wait_for(48)
            assert len(about_name_servers(caplog)) <= 4, caplog.text


def about_name_servers(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "name server" in record.getMessage()]
