"""FastAPI with an App: `pip install 'pyromq[fastapi]'`.

>>> from pyromq.fastapi import AppProducer, lifespan
>>> app = App("shop")
>>> api = FastAPI(lifespan=lifespan(app))
>>> @api.post("/orders")
... async def place(order: Order, producer: AppProducer) -> None:
...     await producer.send("orders", order)

The App starts before the first request and ends after the last one. Its handlers run in the same event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, FastAPI
from starlette.requests import HTTPConnection

from pyromq.app.application import App
from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError

Lifespan: TypeAlias = Callable[[FastAPI], AbstractAsyncContextManager[Mapping[str, Any]]]
PlainLifespan: TypeAlias = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def lifespan(app: App, inner: Lifespan | PlainLifespan | None = None) -> Lifespan:
    """Return a lifespan for FastAPI that runs an App; `inner` is one of your own, which runs inside."""
    if not isinstance(app, App):
        raise ClientError(f"lifespan takes a pyromq.App, not {type(app).__name__}: FastAPI(lifespan=lifespan(app))")

    @asynccontextmanager
    async def run(api: FastAPI) -> AsyncIterator[Mapping[str, Any]]:
        async with app:
            api.state.pyromq = app
            if inner is None:
                yield {}
            else:
                async with inner(api) as state:
                    yield state or {}

    return run


def producer_of(connection: HTTPConnection) -> Producer:
    """Return the App's producer, as a dependency; tests may override it."""
    app = getattr(connection.app.state, "pyromq", None)
    if not isinstance(app, App):
        raise ClientError("no App runs here: FastAPI(lifespan=pyromq.fastapi.lifespan(app))")
    return app.producer


AppProducer = Annotated[Producer, Depends(producer_of)]
"""The App's producer, as a parameter of a path function."""
