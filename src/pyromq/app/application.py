"""App: handlers by decorators."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, TypeVar, Unpack, cast

from pyromq.app.calls import GroupListener, Middleware
from pyromq.app.handlers import Handler, HandlerGroup, HandlerOptions, Publication, expression_of
from pyromq.app.providers import Providers, State
from pyromq.app.session import AppParts, AppSession
from pyromq.app.signature import Signature, read_handler, read_hook
from pyromq.app.worker_processes import check_importable
from pyromq.blocking import Producer as BlockingProducer
from pyromq.client.config import ProducerOptions
from pyromq.client.consume.subscriptions import Function, Sql, subscribe
from pyromq.client.lifecycle import ClientLifecycle
from pyromq.client.portal import LoopPortal
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.client.send.producer import Producer
from pyromq.client.trace.client_metrics import ClientMetrics
from pyromq.client.trace.config import Trace
from pyromq.clock import Clock, SystemClock
from pyromq.codecs.topic_codecs import CodecChoice, TopicCodecs
from pyromq.errors import ClientError
from pyromq.protocol.acl import Credentials
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.names import check_topic
from pyromq.remoting.tls.client_tls import Tls

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_FORM = 'write @app.on("orders", group="billing")'


class App(ClientLifecycle[AppSession]):
    """Consumers by decorators: a handler's signature says what it is given.

    >>> app = App("shop")
    >>> @app.on("orders", group="billing", tags="created")
    ... async def bill(order: Order) -> None: ...

    The payload is decoded into the type of its parameter by the topic's codec: a Struct, dataclass, TypedDict, Pydantic
    model, dict, str or bytes. A MessageExt, a Producer, the Clock, the State, the App, and whatever `provide` registers
    are given by their types. Returning acknowledges the message; `publishes` sends the returned value on first.

    `pyromq run module:app` runs it. In a program of your own: `async with app: await app.run()`. `name` is the group of
    its producer, and of handlers that name none. `codec` is one for all topics, or one for each by name.
    """

    def __init__(
        self,
        name: str = "app",
        namesrv: str | Sequence[str] | None = None,
        *,
        codec: CodecChoice = None,
        namespace: str | None = None,
        credentials: Credentials | None = None,
        tls: bool | Tls | None = None,
        trace: bool | Trace = False,
        metrics: ClientMetrics | None = None,
        producer: ProducerOptions | None = None,
        title: str | None = None,
        version: str = "0.1.0",
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.namesrv = namesrv
        self.title = title or name
        self.version = version
        """Title and version are for the documentation of the App."""
        self.state = State()
        self.clock = clock or SystemClock()
        self.codecs = TopicCodecs(codec)
        self._client_options: dict[str, Any] = {
            "namespace": namespace,
            "credentials": credentials,
            "tls": tls,
            "trace": trace,
            "metrics": metrics,
        }
        self._producer_options: ProducerOptions = {"codec": codec, **(producer or {})}
        self._groups: dict[str, HandlerGroup] = {}
        self._publications: dict[Callable[..., Any], Publication] = {}
        self._middlewares: list[Middleware] = []
        self._startup: list[Signature] = []
        self._shutdown: list[Signature] = []
        self._providers = Providers([App, Producer, BlockingProducer, Clock, State])
        self.new_producer()  # a wrong name or option is refused here
        super().__init__("app", self._new_session)

    # --- what it consists of -----------------------------------------------------------------------------------------

    @property
    def handlers(self) -> list[Handler]:
        """All handlers, in the order of their groups."""
        return [handler for group in self._groups.values() for handler in group.handlers]

    @property
    def parts(self) -> AppParts:
        """What its decorators have collected."""
        return AppParts(
            self._groups, self._publications, self._middlewares, self._providers, self._startup, self._shutdown
        )

    def on(
        self,
        topic: str,
        *,
        group: str | None = None,
        tags: str | None = None,
        sql: str | Sql | None = None,
        function: str | Function | None = None,
        processes: int = 0,
        **options: Unpack[HandlerOptions],
    ) -> Callable[[F], F]:
        """Call the decorated function with the messages of a topic.

        The members of a group share the messages. Several handlers of one group may take the same topic if their tags
        differ. `sql` and `function` filter on the broker. An async function runs on the event loop, a plain one on a
        thread; `processes` runs a plain one in so many processes, for work that needs a CPU, and the parent
        acknowledges. The options are those of PushConsumer, given with the first handler of a group.

        The function is called with keyword arguments and stays as it is, so that tests may call it directly. Raises
        ClientError if it could never be called.
        """
        if not isinstance(topic, str):
            raise ClientError(f"@app.on needs a topic: {_FORM}")
        names = _names_around(sys._getframe(1))

        def add(decorated: F) -> F:
            batches = options.get("batch_size", 1) > 1
            signature = read_handler(decorated, self._providers.kinds, names, batches=batches)
            expression = expression_of(topic, tags, sql, function)
            codec = self.codecs.of(topic)
            with _naming(signature):
                decode = None if signature.payload is None else codec.decoder(signature.kind)
            if processes:
                _check_processes(signature, processes)
            handler = Handler(
                topic=topic,
                group=self.name if group is None else group,
                expression=expression,
                signature=signature,
                codec=codec,
                decode=decode,
                tags=subscribe(topic, expression).tags,
                processes=processes,
            )
            self._add(handler, options)
            return decorated

        return add

    def _add(self, handler: Handler, options: HandlerOptions) -> None:
        self._check_closed()
        known = self._groups.get(handler.group) or HandlerGroup(handler.group)
        with _naming(handler.signature):
            known.check(handler, options)
            trial = HandlerGroup(handler.group)
            for each in (*known.handlers, handler):
                trial.add(each, {**known.options, **options})
            self._new_consumer(trial, _listener_of(trial))  # refuses wrong names and values of options
        known.add(handler, options)
        self._groups[handler.group] = known

    def publishes(
        self, topic: str, *, tags: str | None = None, key: Callable[[Any], str] | None = None
    ) -> Callable[[F], F]:
        """Send what the decorated handler returns to a topic, before its message is acknowledged; None sends nothing.

        `key` returns the key of a value; without it the new message has the keys of the handled one. A handler that
        returns a Message, or a list of them, needs no `publishes`: they are sent as they are.
        """
        if not isinstance(topic, str):
            raise ClientError('@app.publishes needs a topic: write @app.publishes("paid")')
        check_topic(topic)

        def add(decorated: F) -> F:
            self._check_closed()
            if decorated in self._publications:
                raise ClientError(f"{decorated.__name__} publishes to {self._publications[decorated].topic} already")
            self._publications[decorated] = Publication(topic, tags, key)
            return decorated

        return add

    def provide(self, value: T, as_type: Any = None) -> T:
        """Give a value to parameters of its type, or of `as_type`; also a decorator for a function that makes it.

        >>> @app.provide
        ... async def database() -> AsyncIterator[Database]:
        ...     async with connect() as opened:
        ...         yield opened

        Such a function is called when the App starts; what follows its `yield` runs when the App has ended.
        """
        self._check_closed()
        if as_type is None and callable(value) and hasattr(value, "__code__"):
            self._providers.add_factory(value, _names_around(sys._getframe(1)))
        else:
            self._providers.add_value(value, as_type)
        return value

    def middleware(self, function: Middleware) -> Middleware:
        """Call this around every handler: `async def log(call: HandlerCall, proceed: Proceed): return await proceed()`.

        The first one is the outermost. It may change the outcome, raise, or not proceed at all, which acknowledges.
        """
        self._check_closed()
        self._middlewares.append(function)
        return function

    def on_startup(self, function: F) -> F:
        """Call this before the first message; its parameters are given by their types."""
        self._check_closed()
        self._startup.append(read_hook(function, self._providers.kinds, _names_around(sys._getframe(1))))
        return function

    def on_shutdown(self, function: F) -> F:
        """Call this after the last message, while producer and resources are still open."""
        self._check_closed()
        self._shutdown.append(read_hook(function, self._providers.kinds, _names_around(sys._getframe(1))))
        return function

    def decode(self, message: MessageExt, kind: type[T]) -> T:
        """Return a message's body as a value of this type, by the topic's codec; raises PayloadError."""
        return cast("T", self.codecs.of(message.topic).decoder(kind)(message.body))

    def _check_closed(self) -> None:
        if self._opened is not None:
            raise ClientError("the app is running: add its parts before it starts")

    def use_cluster(self, namesrv: str | Sequence[str] | None, credentials: Credentials | None = None) -> None:
        """Use these name servers instead of the App's own, and this account if the App has none; before it starts."""
        self._check_closed()
        if namesrv is not None:
            self.namesrv = namesrv
        if self._client_options["credentials"] is None:
            self._client_options["credentials"] = credentials

    # --- while it runs -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Wait until this is cancelled or `stop` is called; `async with` then closes the App in order."""
        await self._session.closing.wait()

    def stop(self) -> None:
        """Let `run` return."""
        self._session.closing.set()

    @property
    def producer(self) -> Producer:
        """The App's producer, while it is open."""
        return self._session.producer

    def new_producer(self) -> Producer:
        """Return a producer with the App's options, not opened."""
        return Producer(self.name, self.namesrv, **{**self._client_options, **self._producer_options}, clock=self.clock)

    def built_in(self, producer: Producer) -> dict[Any, Any]:
        """Return the values that every App gives by their types; called on the App's event loop."""
        blocking = BlockingProducer.around(producer, LoopPortal())
        return {App: self, Producer: producer, BlockingProducer: blocking, Clock: self.clock, State: self.state}

    def _new_session(self) -> AppSession:
        producer = self.new_producer()
        return AppSession(self.parts, producer, partial(self.built_in, producer), self._new_consumer)

    def _new_consumer(self, group: HandlerGroup, listener: GroupListener) -> PushConsumer:
        options = cast("dict[str, Any]", group.options)
        return PushConsumer(
            group.name,
            self.namesrv,
            group.subscriptions,
            listener.listener,
            **{**self._client_options, **options},
            clock=self.clock,
        )


def _listener_of(group: HandlerGroup) -> GroupListener:
    """Return a listener that is never called, to check the options of a consumer."""
    return GroupListener(group, cast("Any", None))


def _check_processes(signature: Signature, processes: int) -> None:
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 0:
        raise ClientError(f"processes= takes a number of processes, not {processes!r}")
    if signature.is_async:
        raise ClientError(f"processes= is for plain functions: write `def {signature.name}`, not `async def`")
    if signature.values:
        name = next(iter(signature.values))
        raise ClientError(f"{name!r} cannot go to another process: with processes= a handler gets payload and message")
    check_importable(signature.function)


@contextmanager
def _naming(signature: Signature) -> Iterator[None]:
    """Put the handler's name in front of an error."""
    try:
        yield
    except ClientError as error:
        text = str(error)
        raise ClientError(text if signature.name in text else f"{signature.name}: {text}") from None


def _names_around(frame: FrameType) -> Mapping[str, Any]:
    """Return the local names where a decorator stands: the types of handlers inside of functions are found there."""
    return frame.f_locals
