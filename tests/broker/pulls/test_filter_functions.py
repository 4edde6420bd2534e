"""Filter functions over the wire: what a pull gets, what is refused, and what a function that fails does."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.config.broker_config import broker_config, settings_of
from pyromq.broker.pulls.filter_functions import FunctionScan, load_functions
from pyromq.broker.server import Broker
from pyromq.errors import ConfigError
from pyromq.protocol.bodies import CheckClientRequestBody, ConsumerData, HeartbeatData, SubscriptionData, encode
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record, encode_record
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer

MODULE = """
def is_large(message):
    if int(message.properties["amount"]) > 100 or message.body == b"big":
        return True
    return message.tags == "L" or "k" in message.keys

def spoil(message):
    message.properties.clear()
    message.topic = "another"
    return "yes"

async def later(message): ...

class Filters:
    @staticmethod
    def nothing(message):
        return False

NUMBER = 7
"""


@pytest.fixture(autouse=True)
def shop_filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a module of the operator's."""
    directory = tmp_path / "installed"
    directory.mkdir()
    (directory / "shop_filters.py").write_text(MODULE)
    (directory / "broken_filters.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(directory))
    yield
    sys.modules.pop("shop_filters", None)


@pytest.fixture
async def broker(start_broker: StartBroker) -> Broker:
    functions = "large=shop_filters:is_large; nothing=shop_filters:Filters.nothing;spoil=shop_filters:spoil"
    return await start_broker(pyromqFilterFunctions=functions)


async def send(peer: Peer, body: bytes, **properties: str) -> None:
    await peer.send(body=body, properties=encode_properties(properties))


async def wanted(peer: Peer, name: str, **fields: Any) -> list[bytes]:
    """Return the bodies that a pull with this function gets."""
    messages = await peer.read(subscription=name, expression_type="FUNCTION", **fields)
    return [message.body for message in messages]


async def beat(peer: Peer, name: str) -> None:
    data = SubscriptionData(topic="orders", sub_string=name, sub_version=1, expression_type="FUNCTION")
    consumer = ConsumerData(group_name="billing", subscription_data_set=[data])
    await peer.ask(RequestCode.HEART_BEAT, None, encode(HeartbeatData("c1", [], [consumer])))


async def check(peer: Peer, name: str, expect: int = 0) -> str:
    data = SubscriptionData(topic="orders", sub_string=name, expression_type="FUNCTION")
    body = encode(CheckClientRequestBody(client_id="c1", group="billing", subscription_data=data))
    return (await peer.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body, expect=expect)).remark or ""


async def test_a_function_sees_properties_body_tags_and_keys(peer: Peer) -> None:
    await send(peer, b"cheap", amount="1")
    await send(peer, b"dear", amount="101")
    await send(peer, b"big", amount="2")
    await send(peer, b"tagged", amount="3", TAGS="L")
    await send(peer, b"keyed", amount="4", KEYS="j k")
    assert await wanted(peer, "large") == [b"dear", b"big", b"tagged", b"keyed"]


async def test_what_a_function_changes_in_a_message_has_no_effect(peer: Peer) -> None:
    await send(peer, b"one", amount="1")
    (message,) = await peer.read(subscription="spoil", expression_type="FUNCTION")
    assert (message.topic, message.properties["amount"]) == ("orders", "1")


async def test_a_registered_function_filters_pulls_that_bring_no_expression(peer: Peer) -> None:
    await send(peer, b"cheap", amount="1")
    await send(peer, b"dear", amount="200")
    await beat(peer, "large")
    messages = await peer.read(sys_flag=0, subscription=None, sub_version=1)
    assert [message.body for message in messages] == [b"dear"]


async def test_a_pull_waits_for_what_the_function_wants(peer: Peer, connect: Connect, broker: Broker) -> None:
    await send(peer, b"cheap", amount="1")
    other = await connect(broker)
    waiting = asyncio.create_task(wanted(other, "large", queue_offset=1, sys_flag=4 | 2, suspend_timeout_millis=20_000))
    await send(peer, b"cheaper", amount="1")
    await send(peer, b"dear", amount="200")
    assert await waiting == [b"dear"]


async def test_nothing_wanted_moves_the_offset_on(peer: Peer) -> None:
    for _ in range(5):
        await send(peer, b"x", amount="1")
    answer = await peer.pull(
        subscription="nothing", expression_type="FUNCTION", expect=ResponseCode.PULL_RETRY_IMMEDIATELY
    )
    assert answer.ext_fields["nextBeginOffset"] == "5"


async def test_a_name_that_is_not_installed_is_refused_everywhere_with_those_that_are(peer: Peer) -> None:
    await send(peer, b"x", amount="1")
    refused = ResponseCode.SUBSCRIPTION_PARSE_FAILED
    remark = await check(peer, "huge", expect=refused)
    assert remark == ("this broker has no filter function 'huge'; it has large, nothing, spoil (pyromqFilterFunctions)")
    answer = await peer.pull(subscription="huge", expression_type="FUNCTION", expect=refused)
    assert answer.remark == remark
    await beat(peer, "huge")
    answer = await peer.pull(sys_flag=0, subscription=None, sub_version=1, expect=refused)
    assert answer.remark == remark
    for source in ("lambda message: True", "os:system", "shop_filters:is_large"):
        assert "has no filter function" in await check(peer, source, expect=refused)
    await check(peer, "large")


async def test_functions_need_no_property_filter_and_switch_none_on(peer: Peer) -> None:
    await send(peer, b"x", amount="1")
    await peer.pull(subscription="amount > 0", expression_type="SQL92", expect=ResponseCode.SYSTEM_ERROR)


async def test_a_function_that_raises_delivers_and_is_counted(
    peer: Peer, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(12):
        await send(peer, b"%d" % number)  # without an amount
    assert len(await wanted(peer, "large")) == 12
    lines = [record for record in caplog.records if "filter function large raised" in record.getMessage()]
    assert ["times=1:" in line.getMessage() for line in lines] == [True, False]  # the first and the tenth
    assert "KeyError('amount')" in lines[0].getMessage()
    assert broker.http_info()["filter_function_errors"] == {"large": 12}


async def test_retries_are_filtered_by_the_function_too_where_that_is_on(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = await start_broker(pyromqFilterFunctions="large=shop_filters:is_large", filterSupportRetry="true")
    peer = await connect(broker)
    await beat(peer, "large")
    for body, amount in ((b"cheap", "1"), (b"dear", "200")):
        properties = encode_properties({"RETRY_TOPIC": "orders", "amount": amount})
        await peer.send("%RETRY%billing", body, properties=properties)
    messages = await peer.read("%RETRY%billing")
    assert [message.body for message in messages] == [b"dear"]


async def test_a_registered_function_is_still_there_after_a_restart(
    start_broker: StartBroker, connect: Connect
) -> None:
    functions = "large=shop_filters:is_large"
    broker = await start_broker(pyromqFilterFunctions=functions)
    await beat(await connect(broker), "large")
    await broker.__aexit__(None, None, None)
    again = await start_broker(pyromqFilterFunctions=functions)
    known = again._tables.filters.get("orders", "billing")
    assert known is not None
    assert isinstance(known.scan, FunctionScan)


# --- a function by itself


def record(body: bytes = b"x") -> bytes:
    return encode_record(Record(topic="orders", body=body), b"orders", 0, 0, 0)


def test_a_slow_function_is_asked_about_fewer_messages_in_one_read() -> None:
    quick, slow = FunctionScan("quick", lambda message: True), FunctionScan("slow", lambda message: time.sleep(0.004))
    for _ in range(30):
        quick.accepts(record())
        assert not slow.accepts(record())
    assert slow.scan_limit == 8
    assert quick.scan_limit > 100


def test_the_setting_names_each_function_once() -> None:
    config = broker_config({"pyromqFilterFunctions": " a = shop_filters:is_large ; b=x.y:Z.f;"})
    assert config.filter_functions == (("a", "shop_filters:is_large"), ("b", "x.y:Z.f"))
    assert settings_of(config)["pyromqFilterFunctions"] == "a=shop_filters:is_large;b=x.y:Z.f"
    for wrong in ("a", "a=b", "=m:f", "a=m:f;a=m:g", "a=m:f()", "a=m:f,b=m:g"):
        with pytest.raises(ConfigError, match="pyromqFilterFunctions must be name=module:function"):
            broker_config({"pyromqFilterFunctions": wrong})


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("not_there:f", "ModuleNotFoundError"),
        ("shop_filters:missing", "AttributeError"),
        ("broken_filters:f", "ZeroDivisionError"),
        ("shop_filters:NUMBER", "not a plain function"),
        ("shop_filters:later", "not a plain function"),
    ],
)
def test_what_cannot_be_loaded_stops_the_start_and_is_named(place: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"pyromqFilterFunctions: name={place}.*{reason}"):
        load_functions({"name": place})
