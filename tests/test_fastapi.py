"""The lifespan for FastAPI: the App runs while the service does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from fastapi import FastAPI, WebSocket
from fastapi.testclient import TestClient

from pyromq import App
from pyromq.errors import ClientError
from pyromq.fastapi import AppProducer, lifespan, producer_of
from pyromq.testing import LocalCluster


def new_service(cluster: LocalCluster, topic: str) -> tuple[FastAPI, list[str]]:
    app = App("web", cluster.namesrv)
    events: list[str] = []

    @app.on_startup
    def started() -> None:
        events.append("app started")

    @app.on_shutdown
    def ended() -> None:
        events.append("app ended")

    @asynccontextmanager
    async def own(api: FastAPI) -> AsyncIterator[dict[str, str]]:
        events.append("own started")
        yield {"name": "shop"}
        events.append("own ended")

    api = FastAPI(lifespan=lifespan(app, own))

    @api.post("/orders")
    async def place(producer: AppProducer) -> str:
        return (await producer.send(topic, "an order", timeout=30)).message_id

    @api.websocket("/live")
    async def live(socket: WebSocket, producer: AppProducer) -> None:
        await socket.accept()
        await socket.send_text((await producer.send(topic, "from a socket", timeout=30)).message_id)

    return api, events


def test_the_app_runs_as_long_as_the_service_and_more_than_once(pyromq_topic: str) -> None:
    with LocalCluster() as cluster:
        api, events = new_service(cluster, pyromq_topic)
        ids = []
        for _ in range(2):
            with TestClient(api) as client:
                ids.append(client.post("/orders").json())
                with client.websocket_connect("/live") as socket:
                    ids.append(socket.receive_text())
        assert [message.message_id for message in cluster.messages_blocking(pyromq_topic)] == ids
    assert events == ["app started", "own started", "own ended", "app ended"] * 2


def test_without_the_lifespan_the_error_says_what_is_missing() -> None:
    with pytest.raises(ClientError, match=r"FastAPI\(lifespan="):
        producer_of(SimpleNamespace(app=FastAPI()))  # type: ignore[arg-type]
    with pytest.raises(ClientError, match=r"lifespan takes a pyromq\.App, not FastAPI"):
        lifespan(FastAPI())  # type: ignore[arg-type]
