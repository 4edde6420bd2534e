"""TestApp: an App in one line, without a network: what is sent to it goes through its handlers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from msgspec import Struct

from pyromq.app.application import App
from pyromq.app.session import AppSession
from pyromq.app.without_broker import StoredMessages, answer, passes
from pyromq.client.listener.outcomes import Action, DeadLetter, RetryLater, Verdict, judge
from pyromq.client.send.producer import Producer
from pyromq.client.send.values import MISSING, message_of
from pyromq.client.send_result import SendResult
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import Message, MessageExt, reply_channel

T = TypeVar("T")


class HandledMessage(Struct, frozen=True):
    """A message that a handler got, and how that ended."""

    message: MessageExt
    handler: str
    group: str
    action: Action
    """NOTHING if it was acknowledged, otherwise RETRY, GIVE_UP (a dead letter) or ROLL_BACK."""
    cause: str = ""


class TestApp:
    """Runs an App without a network, in one line.

    >>> def test_a_new_order_is_billed() -> None:
    ...     with TestApp(app) as test:
    ...         test.send("orders", Order("o-1", 1250), tags="created")
    ...         assert test.sent("paid", Paid) == [Paid("o-1")]

    `send` calls the handlers that would get the message, one after another, and those of the messages that they send in
    turn. It returns when all of them have ended, and raises what a handler raised. `with` is for plain tests,
    `async with` for async ones, whose methods are awaited. Values may be replaced: `TestApp(app, {Database: fake})`.
    """

    __test__ = False  # pytest takes it for a class of tests

    def __init__(self, app: App, values: Mapping[Any, Any] | None = None) -> None:
        if not isinstance(app, App):
            raise ClientError(f"TestApp takes an App, not {type(app).__name__}: TestApp(app)")
        self._app = app
        self._values = dict(values or {})
        self._runner: asyncio.Runner | None = None
        self._session: AsyncTestSession | None = None

    def __enter__(self) -> TestSession:
        self._runner = asyncio.Runner()
        return TestSession(self._runner.run(self.__aenter__()), self._runner)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        try:
            self._runner.run(self.__aexit__(kind, error, trace))
        finally:
            self._runner.close()

    async def __aenter__(self) -> AsyncTestSession:
        self._session = AsyncTestSession(self._app, self._values)
        try:
            await self._session.start()
        except BaseException:
            await self._session.close()
            raise
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()


class AsyncTestSession:
    """An App that runs without a network; `async with TestApp(app)`."""

    def __init__(self, app: App, values: Mapping[Any, Any]) -> None:
        self.app = app
        self.handled: list[HandledMessage] = []
        """Every message that a handler got, in order."""
        self.replies: list[bytes] = []
        """What handlers replied."""
        self._sent: list[MessageExt] = []
        self._stored = StoredMessages(app.clock)
        self._waiting: list[MessageExt] = []
        producer = _RecordingProducer(app, self._record)
        self._app_session = AppSession(app.parts, producer, partial(app.built_in, producer), None, values)

    async def start(self) -> None:
        """Open the App's resources and run its hooks."""
        await self._app_session.start()

    async def close(self) -> None:
        """Run its hooks and close its resources."""
        await self._app_session.close()

    async def send(
        self,
        topic: str | Message,
        value: object = MISSING,
        *,
        tags: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
    ) -> list[HandledMessage]:
        """Give a message to the handlers that would get it, and to those of what they send; return what they did.

        Raises what a handler raised, but RetryLater and DeadLetter, which are outcomes.
        """
        message = message_of(self.app.codecs, topic, value, tags, keys, properties)
        message.check()
        before = len(self.handled)
        self._waiting.append(self._stored.store(message))
        while self._waiting:
            await self._deliver(self._waiting.pop(0))
        return self.handled[before:]

    def messages(self, topic: str) -> list[MessageExt]:
        """Return the messages that the App sent to a topic."""
        return [message for message in self._sent if message.topic == topic]

    def sent(self, topic: str, kind: type[T] = bytes) -> list[T]:  # type: ignore[assignment]
        """Return what the App sent to a topic, decoded as values of this type."""
        return [self.app.decode(message, kind) for message in self.messages(topic)]

    @property
    def dead_letters(self) -> list[HandledMessage]:
        """The messages that handlers gave up."""
        return [each for each in self.handled if each.action is Action.GIVE_UP]

    def _record(self, message: Message) -> SendResult:
        message.check()
        stored = self._stored.store(message)
        self._sent.append(stored)
        self._waiting.append(stored)
        return answer(stored)

    async def _deliver(self, message: MessageExt) -> None:
        for name, group in self.app.parts.groups.items():
            handler = group.find(message)
            if handler is None or not passes(handler.expression, message):
                continue
            outcome = await self._outcome(name, [message] if group.in_batches else message)
            verdict = judge(1, outcome)
            self.handled.append(HandledMessage(message, handler.name, name, verdict.action, verdict.cause))
            _raise_failure(verdict)

    async def _outcome(self, group: str, argument: Any) -> object:
        token = reply_channel.set(self._reply)
        try:
            return await self._app_session.listeners[group].listener(argument)
        except Exception as error:
            return error
        finally:
            reply_channel.reset(token)

    def _reply(self, message: MessageExt, body: bytes) -> _Done:
        self.replies.append(bytes(body))
        return _Done()


class TestSession:
    """An App that runs without a network, for tests without `async`; `with TestApp(app)`."""

    __test__ = False

    def __init__(self, session: AsyncTestSession, runner: asyncio.Runner) -> None:
        self._session = session
        self._runner = runner
        self.app = session.app
        self.handled = session.handled
        """Every message that a handler got, in order."""
        self.replies = session.replies
        """What handlers replied."""
        self.messages = session.messages
        self.sent = session.sent

    def send(
        self,
        topic: str | Message,
        value: object = MISSING,
        *,
        tags: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
    ) -> list[HandledMessage]:
        """Give a message to the handlers that would get it, and to those of what they send; return what they did.

        Raises what a handler raised, but RetryLater and DeadLetter, which are outcomes.
        """
        return self.run(self._session.send(topic, value, tags=tags, keys=keys, properties=properties))

    @property
    def dead_letters(self) -> list[HandledMessage]:
        """The messages that handlers gave up."""
        return self._session.dead_letters

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the App's event loop."""
        return self._runner.run(coroutine)


class _Done:
    """Nothing to wait for."""

    def __await__(self) -> Any:
        return iter(())


class _RecordingProducer(Producer):
    """The App's producer without a network: it records what it sends."""

    def __init__(self, app: App, record: Callable[[Message], SendResult]) -> None:
        super().__init__(app.name, "127.0.0.1:9876", codec=app.codecs.choice, clock=app.clock)
        self._record = record

    async def start(self) -> None:
        """Open nothing."""

    async def close(self) -> None:
        """Close nothing."""

    async def send(self, message: Any, value: object = MISSING, **options: Any) -> SendResult:
        given = {name: options.pop(name, default) for name, default in _MESSAGE_OPTIONS.items()}
        return self._record(message_of(self.codecs, message, value, **given))

    async def send_oneway(self, message: Any, value: object = MISSING, **options: Any) -> None:
        await self.send(message, value, **options)

    async def send_batch(self, messages: Sequence[Message], **options: Any) -> list[SendResult]:
        return [self._record(message) for message in messages]


_MESSAGE_OPTIONS: dict[str, Any] = {"tags": None, "keys": (), "properties": None}


def _raise_failure(verdict: Verdict) -> None:
    if verdict.error is not None and not isinstance(verdict.error, RetryLater | DeadLetter):
        raise verdict.error
