"""The mistakes of a first day: each gives one line that says what to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from pyromq import (
    LitePullConsumer,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    SendHook,
    Sql,
    TransactionProducer,
    blocking,
)
from pyromq.errors import PyroMQError
from pyromq.testing import LocalCluster, eventually


async def listen(message: MessageExt) -> None: ...


def push(**options: Any) -> PushConsumer:
    return PushConsumer("g", None, {"orders": "*"}, listen, **options)


def pull(**options: Any) -> LitePullConsumer:
    return LitePullConsumer("g", None, {"orders": "*"}, **options)


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "a group that is no text": (lambda: Producer(_(5)), "the group name must be a str, not int"),
    "a group with blanks": (lambda: Producer("my group"), "has characters other than letters, digits"),
    "no group": (lambda: Producer(""), "the group name is blank"),
    "a timeout as text": (
        lambda: Producer("g", send_timeout=_("3")),
        "send_timeout= takes a positive number of seconds",
    ),
    "no timeout": (lambda: Producer("g", send_timeout=0), "send_timeout= takes a positive number of seconds, not 0"),
    "retries as text": (lambda: Producer("g", retries=_("2")), "retries= takes a whole number from 0 on, not '2'"),
    "no retries": (lambda: Producer("g", retries=-1), "retries= takes a whole number from 0 on, not -1"),
    "one hook": (lambda: Producer("g", hooks=_(SendHook())), "hooks= takes a list: hooks=[hook], not"),
    "an account as a pair": (
        lambda: Producer("g", credentials=_(("a", "b"))),
        "takes Credentials(access_key, secret_key)",
    ),
    "a namespace as a number": (lambda: Producer("g", namespace=_(5)), "namespace= takes a str, or None, not 5"),
    "nothing in flight": (
        lambda: Producer("g", max_in_flight=0),
        "max_in_flight= takes a whole number from 1 on, not 0",
    ),
    "a codec as text": (lambda: Producer("g", codec=_("json")), "codec= takes a codec such as Json()"),
    "a trace as text": (lambda: Producer("g", trace=_("yes")), "trace= is True, False or Trace(...), not 'yes'"),
    "a check that is no function": (lambda: TransactionProducer("g", check=_(5)), "check= must be a function"),
    "concurrency as text": (lambda: push(concurrency="20"), "concurrency= takes a whole number, not '20'"),
    "too much of it": (lambda: push(concurrency=0), "concurrency must be between 1 and 1000, not 0"),
    "a switch as text": (lambda: push(orderly="yes"), "orderly= takes True or False, not 'yes'"),
    "a rate as text": (lambda: push(rate="5"), "rate= takes a number, or None, not '5'"),
    "an allocation by name": (lambda: push(allocate="avg"), "allocate= takes a function such as allocate_averagely"),
    "flow control as a number": (
        lambda: push(flow_control=100),
        "flow_control= takes FlowControl(messages=..., size=...)",
    ),
    "a start by another word": (
        lambda: push(start_from="beginning"),
        "start_from must be 'latest', 'earliest' or a da",
    ),
    "a time-out as text": (lambda: push(consume_timeout="5"), "consume_timeout takes seconds or a timedelta, not '5'"),
    "a function that is none": (
        lambda: push(on_assigned=5),
        "on_assigned= takes a function of a list of queues, not 5",
    ),
    "a batch as text": (lambda: pull(pull_batch="5"), "pull_batch= takes a whole number from 1 on, not '5'"),
    "an interval of nothing": (lambda: pull(auto_commit_interval=0), "auto_commit_interval= takes a positive number"),
    "an offset store by path": (
        lambda: pull(offset_store="/tmp/x"),
        "such as LocalOffsets(path), or None, not '/tmp/x'",
    ),
    "subscriptions as text": (lambda: LitePullConsumer("g", None, _("orders")), "write {'orders': '*'}, not 'orders'"),
    "subscriptions as a list": (lambda: LitePullConsumer("g", None, _(["a", "b"])), "write {'a': '*', 'b': '*'}, not"),
    "no subscription": (lambda: LitePullConsumer("g", None, {}), "subscriptions is empty: write {'orders': '*'}"),
    "tags as a list": (lambda: LitePullConsumer("g", None, {"a": _(["b"])}), "expected tags such as 'a || b', Sql"),
    "tags with a comma": (
        lambda: LitePullConsumer("g", None, {"a": "b,c"}),
        "separated by ||, not by ',': write 'b || c'",
    ),
    "an empty condition": (lambda: LitePullConsumer("g", None, {"a": Sql(" ")}), "expected tags such as 'a || b', Sql"),
    "no name server": (lambda: PushConsumer("g", _({"a": "*"}), _(listen)), "the second argument is namesrv="),
    "a port alone": (lambda: Producer("g", _(9876)), "namesrv= takes 'host:port', several separated by ';', or a list"),
    "a host alone": (
        lambda: Producer("g", "localhost"),
        "not a name server's address: 'localhost'; expected host:port",
    ),
    "commas between addresses": (lambda: Producer("g", "a:9876,b:9876"), "separate several by ';'"),
    "no listener": (
        lambda: PushConsumer("g", None, {"a": "*"}),
        "a PushConsumer needs a listener, a function that takes",
    ),
    "a listener called": (
        lambda: PushConsumer("g", None, {"a": "*"}, _(listen.__name__)),
        "needs a listener, a functi",
    ),
    "a body as text": (
        lambda: Message("t", _("x")),
        "must be bytes, not str: body=text.encode(), or producer.send(topic",
    ),
    "a body as a dict": (
        lambda: Message("t", _({})),
        "must be bytes, not dict: producer.send(topic, value), which enc",
    ),
    "several tags": (lambda: Message("t", b"x", tags=_(["a"])), "a message has one tag, a str: not ['a']"),
    "properties as a list": (
        lambda: Message("t", b"x", properties=_([1])).check(),
        "properties are a dict of str, not [1]",
    ),
    "an async client in with": (lambda: _(Producer("g")).__enter__(), "write `async with`, or use pyromq.blocking"),
    "an async consumer in for": (
        lambda: iter(_(pull())),
        "write `async for message in consumer`, or use pyromq.blocking",
    ),
}


def _(value: object) -> Any:
    """Return a value that a type checker would refuse."""
    return value


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_kind_is_refused_when_a_client_is_made(mistake: str) -> None:
    call, text = MISTAKES[mistake]
    with pytest.raises(PyroMQError) as caught:
        call()
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def generator(message: MessageExt) -> Iterator[None]:
    yield


async def async_generator(message: MessageExt) -> AsyncIterator[None]:
    yield


def two(message: MessageExt, more: int) -> None: ...


def nothing() -> None: ...


def text(message: str) -> None: ...


@pytest.mark.parametrize(
    ("listener", "reason"),
    [
        (
            generator,
            "the listener generator has a `yield`, so calling it would run nothing of it: write `async def listen",
        ),
        (async_generator, "has a `yield`, so calling it would run nothing of it"),
        (two, "the listener two(message, more) must take the message as its one argument"),
        (nothing, "the listener nothing() must take the message as its one argument"),
        (text, "the listener text gets a MessageExt, or a list of them, not str"),
        (Producer, "the listener Producer is a class, whose call only makes an object"),
    ],
)
def test_a_listener_that_could_never_work_is_refused(listener: Any, reason: str) -> None:
    with pytest.raises(PyroMQError) as caught:
        PushConsumer("g", None, {"orders": "*"}, listener)
    assert reason in str(caught.value)


async def open_and_send(client: str, namesrv: str) -> None:
    if client == "producer":
        async with Producer("g", namesrv) as producer:
            await producer.send("orders", "x")
    elif client == "push":
        async with PushConsumer("g", namesrv, {"orders": "*"}, listen):
            pass
    else:
        async with LitePullConsumer("g", namesrv, {"orders": "*"}):
            pass


@pytest.mark.parametrize("client", ["producer", "push", "pull"])
async def test_a_port_where_nobody_listens_is_named(client: str) -> None:
    with pytest.raises(PyroMQError) as caught:
        await open_and_send(client, "127.0.0.1:1")
    assert str(caught.value) == "no name server answers: 127.0.0.1:1 (connection refused); is one running there?"


@pytest.mark.parametrize("client", ["producer", "push", "pull"])
async def test_a_brokers_port_is_recognized(cluster: LocalCluster, client: str) -> None:
    with pytest.raises(PyroMQError) as caught:
        await open_and_send(client, cluster.brokers[0].address)
    assert "(that is a broker; name servers listen on port 9876 by default)" in str(caught.value)


async def test_two_consumers_of_a_group_with_different_tags_are_noticed(
    cluster: LocalCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        PushConsumer("g", cluster.namesrv, {topic: "created"}, listen),
        PushConsumer("g", cluster.namesrv, {topic: "paid"}, listen),
    ):
        pass
    (line, *_) = [line for line in caplog.messages if "two consumers of group=g in this process" in line]
    assert "subscribe differently" in line
    assert "Give them the same subscriptions, or groups of their own" in line


async def test_a_forgotten_await_in_a_listener_is_a_failure_that_says_so(
    cluster: LocalCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def store(message: MessageExt) -> None: ...

    async def forgets(message: MessageExt) -> object:
        return store(message)  # without await

    async with Producer("p", cluster.namesrv) as producer:
        await producer.send(topic, "x")
        async with PushConsumer("g", cluster.namesrv, {topic: "*"}, forgets, start_from="earliest"):
            await eventually(lambda: "was `await` forgotten?" in caplog.text)


def test_a_client_that_is_not_open_says_how_to_open_it(cluster: LocalCluster) -> None:
    with pytest.raises(PyroMQError, match="this producer is not open: use it inside `async with`"):
        asyncio.run(Producer("g", cluster.namesrv).send("orders", "x"))
    with pytest.raises(PyroMQError, match=r"\(`with`, if it is blocking\)"):
        blocking.Producer("g", cluster.namesrv).send("orders", "x")

    async def wrong_way() -> None:
        async with _(blocking.Producer("g", cluster.namesrv)):
            pass

    with pytest.raises(PyroMQError, match="write `with`, or use the one of `pyromq`"):
        asyncio.run(wrong_way())


async def test_an_unknown_topic_is_an_error_at_once_where_topics_are_not_made(topic: str) -> None:
    with LocalCluster(settings={"autoCreateTopicEnable": False}) as cluster:
        async with Producer("g", cluster.namesrv, send_timeout=30) as producer:
            began = time.perf_counter()
            with pytest.raises(PyroMQError) as caught:
                await producer.send("oders", "x")
    assert "oders" in str(caught.value)
    assert time.perf_counter() - began < 20
