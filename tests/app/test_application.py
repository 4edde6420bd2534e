"""An App by itself: what handlers are given, what they return, and which mistakes are refused."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from msgspec import Struct
from pydantic import BaseModel

from pyromq import (
    Ack,
    App,
    DeadLetter,
    HandlerCall,
    Message,
    MessageExt,
    Proceed,
    Producer,
    RetryLater,
    State,
    blocking,
)
from pyromq.client.listener.outcomes import Action
from pyromq.clock import Clock
from pyromq.codecs import MessagePack
from pyromq.errors import ClientError
from pyromq.testing import TestApp


class Order(Struct):
    id: str
    cents: int = 0


class Paid(Struct):
    id: str


@dataclass
class Payment:
    id: str


class Customer(BaseModel):
    id: str


class Address(TypedDict):
    id: str


class Database:
    """Something that handlers need."""

    def __init__(self, name: str = "real") -> None:
        self.name = name
        self.is_open = True


@pytest.fixture
def app() -> App:
    return App("shop", "127.0.0.1:9876")


# --- payloads and parameters ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Order, Order("o-1")),
        (Payment, Payment("o-1")),
        (Customer, Customer(id="o-1")),
        (Address, {"id": "o-1"}),
        (dict, {"id": "o-1"}),
        (dict[str, str], {"id": "o-1"}),
        (str, '{"id":"o-1"}'),
        (bytes, b'{"id":"o-1"}'),
        (Any, {"id": "o-1"}),
    ],
    ids=str,
)
def test_the_signature_says_what_the_payload_is(app: App, kind: Any, expected: object) -> None:
    got = []

    @app.on("orders")
    async def bill(order: kind) -> None:
        got.append(order)

    with TestApp(app) as test:
        test.send("orders", {"id": "o-1"})
    assert got == [expected]


def test_parameters_are_given_by_their_types(app: App) -> None:
    database = app.provide(Database())
    app.state.rate = 3
    got: dict[str, Any] = {}

    @app.on("orders")
    async def bill(
        at: Clock, message: MessageExt, order: Order, producer: Producer, state: State, itself: App, db: Database
    ) -> None:
        got.update(locals())

    with TestApp(app) as test:
        test.send("orders", Order("o-1"), keys="o-1")
    assert (got["order"], got["message"].keys, got["db"], got["state"].rate) == (Order("o-1"), ("o-1",), database, 3)
    assert isinstance(got["producer"], Producer)
    assert (got["itself"], got["at"]) == (app, app.clock)


def test_a_plain_function_runs_on_a_thread_and_sends_with_a_blocking_producer(app: App) -> None:
    threads = []

    @app.on("orders")
    def bill(order: Order, producer: blocking.Producer) -> None:
        threads.append(threading.current_thread())
        producer.send("paid", Paid(order.id))

    with TestApp(app) as test:
        test.send("orders", Order("o-1"))
        assert test.sent("paid", Paid) == [Paid("o-1")]
    assert threads[0] is not threading.main_thread()


def test_resources_live_as_long_as_the_app(app: App) -> None:
    events = []

    @app.provide
    async def database() -> AsyncIterator[Database]:
        events.append("open")
        yield Database()
        events.append("closed")

    @app.provide
    def lines(db: Database) -> Iterator[list[str]]:
        yield [db.name]
        events.append("lines closed")

    @app.on_startup
    async def start(db: Database, producer: Producer, state: State) -> None:
        state.name = db.name
        await producer.send("started", db.name)

    @app.on_shutdown
    def stop(state: State) -> None:
        events.append(f"stop {state.name}")

    @app.on("orders")
    async def bill(order: Order, lines: list[str], state: State) -> None:
        events.append(f"{order.id} {lines} {state.name}")

    with TestApp(app) as test:
        assert test.sent("started") == [b"real"]
        test.send("orders", Order("o-1"))
    assert events == ["open", "o-1 ['real'] real", "stop real", "lines closed", "closed"]


def test_a_test_may_replace_a_value(app: App) -> None:
    @app.provide
    def database() -> Database:
        raise AssertionError("the real one is not opened")

    @app.on("orders")
    async def bill(order: Order, db: Database) -> Message:
        return Message("names", db.name.encode())

    with TestApp(app, {Database: Database("fake")}) as test:
        test.send("orders", Order("o-1"))
        assert test.sent("names", str) == ["fake"]


# --- what comes out ---------------------------------------------------------------------------------------------------


def test_a_returned_value_is_published_with_the_keys_of_its_cause(app: App) -> None:
    @app.on("orders", group="billing")
    @app.publishes("paid", tags="new")
    async def bill(order: Order) -> Paid | None:
        return Paid(order.id) if order.cents else None

    @app.publishes("receipts", key=lambda receipt: f"r-{receipt['id']}")
    @app.on("paid", group="receipts")
    def receipt(paid: Paid) -> dict[str, str]:
        return {"id": paid.id}

    with TestApp(app) as test:
        test.send("orders", Order("o-1", 5), keys="o-1")
        test.send("orders", Order("free"))
        assert test.sent("paid", Paid) == [Paid("o-1")]
        assert [(message.tags, message.keys) for message in test.messages("paid")] == [("new", ("o-1",))]
        assert test.messages("receipts")[0].keys == ("r-o-1",)
        assert [each.handler for each in test.handled] == ["bill", "receipt", "bill"]


def test_returned_messages_are_sent_as_they_are(app: App) -> None:
    @app.on("orders")
    async def split(order: Order, producer: Producer) -> list[Message]:
        return [producer.message("lines", {"n": n}, tags="line") for n in range(order.cents)]

    with TestApp(app) as test:
        test.send("orders", Order("o-1", 2))
        assert test.sent("lines", dict) == [{"n": 0}, {"n": 1}]


def test_handlers_of_one_group_are_chosen_by_tag_and_other_groups_get_it_too(app: App) -> None:
    got = []

    @app.on("orders", group="billing", tags="created")
    async def bill(order: Order) -> None:
        got.append("bill")

    @app.on("orders", group="billing", tags="cancelled || returned")
    async def refund(order: Order) -> None:
        got.append("refund")

    @app.on("orders", group="audit")
    async def note(order: Order) -> None:
        got.append("note")

    @app.on("orders", group="large", sql="cents > 10")
    async def look(order: Order) -> None:
        got.append("look")

    with TestApp(app) as test:
        test.send("orders", Order("o-1"), tags="created")
        test.send("orders", Order("o-1"), tags="returned", properties={"cents": "11"})
        test.send("orders", Order("o-1"), tags="shipped")
    assert got == ["bill", "note", "refund", "note", "look", "note"]
    assert app.parts.groups["billing"].subscriptions == {"orders": "created || cancelled || returned"}


def test_topics_have_codecs_of_their_own() -> None:
    app = App("shop", codec={"orders": MessagePack()})

    @app.on("orders")
    @app.publishes("paid")
    async def bill(order: Order) -> Paid:
        return Paid(order.id)

    with TestApp(app) as test:
        test.send("orders", Order("o-1"))
        assert test.handled[0].message.body == MessagePack().encode(Order("o-1"))
        assert test.sent("paid", str) == ['{"id":"o-1"}']


# --- outcomes ---------------------------------------------------------------------------------------------------------


def test_a_body_that_cannot_be_decoded_is_a_dead_letter_with_the_field(app: App) -> None:
    @app.on("orders")
    async def bill(order: Order) -> None:
        raise AssertionError("it is not called")

    with TestApp(app) as test:
        test.send("orders", b'{"id": 7}')
        (letter,) = test.dead_letters
        assert (
            f"message {letter.message.message_id} of orders at test:0:0: field id: expected str, got int"
            in letter.cause
        )


def test_outcomes_are_recorded_and_errors_are_raised(app: App) -> None:
    @app.on("orders")
    async def bill(order: Order) -> None:
        if order.id == "later":
            raise RetryLater(10, reason="the bank is closed")
        if order.id == "never":
            raise DeadLetter("no such customer")
        raise ValueError(order.id)

    with TestApp(app) as test:
        assert test.send("orders", Order("later"))[0].action is Action.RETRY
        assert test.send("orders", Order("never"))[0].cause.startswith("DeadLetter: no such customer")
        with pytest.raises(ValueError, match="bad"):
            test.send("orders", Order("bad"))


def test_a_batch_is_divided_among_the_handlers(app: App) -> None:
    got: list[tuple[str, int]] = []

    @app.on("orders", group="g", tags="a", batch_size=10)
    async def many(messages: list[MessageExt]) -> Ack | None:
        got.append(("many", len(messages)))
        return Ack(first=1) if len(messages) == 3 else None

    @app.on("orders", group="g", tags="b")
    async def one(order: Order) -> None:
        got.append(("one", 1))
        if order.id == "bad":
            raise ValueError("bad")

    def message(tag: str, body: bytes = b'{"id":"1"}') -> MessageExt:
        return MessageExt(topic="orders", stored_body=body, raw_properties=f"TAGS\x01{tag}\x02".encode())

    async def outcome(*messages: MessageExt) -> object:
        return await test._session._app_session.listeners["g"].batch(list(messages))

    with TestApp(app) as test:
        assert test.run(outcome(message("a"), message("a"), message("b"), message("b"))) is None
        assert got == [("many", 2), ("one", 1), ("one", 1)]
        assert test.run(outcome(message("b"), message("a"), message("a"), message("a"))) == Ack(first=2)
        assert test.run(outcome(message("a"), message("b", b'{"id":"bad"}'), message("a"))) == Ack(first=1)
        with pytest.raises(ValueError, match="bad"):
            test.run(outcome(message("b", b'{"id":"bad"}'), message("a")))


def test_middlewares_stand_around_every_handler(app: App) -> None:
    events = []

    @app.middleware
    async def outer(call: HandlerCall, proceed: Proceed) -> object:
        events.append(f"outer {call.handler} {call.group} {call.message.topic}")
        try:
            return await proceed()
        except ValueError:
            events.append("caught")
            return None

    @app.middleware
    async def inner(call: HandlerCall, proceed: Proceed) -> object:
        events.append("inner")
        return await proceed()

    @app.on("orders", group="billing")
    async def bill(order: Order) -> None:
        raise ValueError

    with TestApp(app) as test:
        test.send("orders", Order("o-1"))
    assert events == ["outer bill billing orders", "inner", "caught"]


async def test_an_async_test_awaits(app: App) -> None:
    @app.on("questions")
    async def answer(message: MessageExt) -> None:
        await message.reply(message.body.upper())

    async with TestApp(app) as test:
        await test.send("questions", "how much?")
        assert test.replies == [b"HOW MUCH?"]


# --- mistakes ---------------------------------------------------------------------------------------------------------


def _function(text: str) -> Any:
    names: dict[str, Any] = dict(globals())
    exec(text, names)
    return next(value for name, value in names.items() if name in ("bill", "Bill"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("async def bill(order): ...", "bill: say what 'order' is, such as `order: dict`, `bytes` or MessageExt"),
        (
            "async def bill(): ...",
            "bill() takes neither a payload nor the message: write `async def bill(",
        ),
        ("async def bill(*orders: Order): ...", "parameters are given by name"),
        ("async def bill(order: Oder): ...", "the type 'Oder' in its signature is not known here; import it"),
        (
            "async def bill(order: Order, db: Database): ...",
            "bill(order: Order, db: Database): one of them is the payload, and nothing is known of the others; "
            "register it before this line: app.provide(a_database)",
        ),
        ("async def bill(db: Database): ...", "bill: Database cannot be decoded from a message; use a msgspec.Struct"),
        ("async def bill(order: Order):\n    yield", "bill has a `yield`, so calling it would run nothing of it"),
        ("def bill(order: Order, producer: Producer): ...", "take pyromq.blocking.Producer, or write `async def`"),
        (
            "async def bill(messages: list[MessageExt], order: Order): ...",
            "decode each with app.decode(message, Order)",
        ),
        ("class Bill:\n    pass", "a handler is a function, not"),
        ("bill = 5", "a handler is a function, not 5"),
    ],
)
def test_a_function_that_could_never_be_called_is_refused(app: App, text: str, reason: str) -> None:
    with pytest.raises(ClientError) as caught:
        app.on("orders")(_function(text.replace("Oder", "'Oder'")))
    assert reason in str(caught.value)
    assert app.handlers == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tags": "a", "sql": "b > 1"}, "give one of tags=, sql= and function="),
        ({"tags": "a, b"}, "tags are separated by ||"),
        ({"group": "two words"}, "two words"),
        ({"concurency": 5}, "@app.on has no option 'concurency'; did you mean 'concurrency'?"),
        ({"concurrency": 0}, "concurrency must be between 1 and 1000"),
        ({"batch_size": 5}, "batch_size needs a handler of batches: `async def bill(messages: list[Mess"),
        ({"processes": 2}, "processes= is for plain functions: write `def bill`, not `async def`"),
        ({"processes": -1}, "processes= takes a number of processes, not -1"),
    ],
    ids=str,
)
def test_wrong_options_are_refused_where_they_stand(app: App, options: Any, reason: str) -> None:
    async def bill(order: Order) -> None: ...

    with pytest.raises(ClientError) as caught:
        app.on("orders", **options)(bill)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({}, {}, "one of them takes all tags; write tags='a || b' with both, or use another group"),
        ({"tags": "a"}, {"tags": "a || b"}, "both want the tag 'a'; a message goes to one of them"),
        ({"tags": "a"}, {"sql": "b > 1"}, "only tags tell them apart"),
        ({"tags": "a"}, {"tags": "b", "orderly": True}, "give orderly= with its first handler, bill"),
        ({"tags": "a", "rate": 5}, {"tags": "b", "rate": 6}, "give rate= with its first handler, bill"),
    ],
    ids=str,
)
def test_handlers_of_a_group_must_go_together(app: App, first: Any, second: Any, reason: str) -> None:
    @app.on("orders", group="billing", **first)
    async def bill(order: Order) -> None: ...

    with pytest.raises(ClientError) as caught:

        @app.on("orders", group="billing", **second)
        async def refund(order: Order) -> None: ...

    assert reason in str(caught.value)
    assert len(app.handlers) == 1


def test_decorators_without_parentheses_are_refused(app: App) -> None:
    with pytest.raises(ClientError, match=r'write @app.on\("orders", group="billing"\)'):
        app.on(lambda order: None)  # type: ignore[arg-type]
    with pytest.raises(ClientError, match=r'write @app.publishes\("paid"\)'):
        app.publishes(lambda order: None)  # type: ignore[arg-type]


def test_a_function_for_processes_is_at_the_top_of_a_module(app: App) -> None:
    with pytest.raises(ClientError, match="needs a function at the top of a module"):

        @app.on("orders", processes=2)
        def bill(order: Order) -> None: ...


def test_an_app_has_a_name_that_brokers_accept() -> None:
    with pytest.raises(ClientError):
        App("two words")
    with pytest.raises(ClientError, match="TestApp takes an App"):
        TestApp(None)  # type: ignore[arg-type]


def test_a_value_is_registered_once_and_a_factory_says_what_it_makes(app: App) -> None:
    app.provide(Database())
    with pytest.raises(ClientError, match="there is a value of type Database already"):
        app.provide(Database())
    with pytest.raises(ClientError, match="say what it makes"):

        @app.provide
        def something():  # type: ignore[no-untyped-def]
            return 1


def test_nothing_is_added_while_it_runs(app: App) -> None:
    app._opened = object()  # type: ignore[assignment]

    async def bill(order: Order) -> None: ...

    adding: list[Any] = [app.on("orders"), app.publishes("paid"), app.middleware, app.on_startup, app.provide]
    for add in adding:
        with pytest.raises(ClientError, match="the app is running"):
            add(bill)
