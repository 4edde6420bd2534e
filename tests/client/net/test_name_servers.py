"""Name servers found by HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pyromq.client.net.address import discovery_url
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError, ConnectFailed
from pyromq.protocol.messages.message import Message
from pyromq.testing import LocalCluster, eventually


class Directory(ThreadingHTTPServer):
    """Serves one text under /rocketmq/nsaddr."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.text = ""
        self.asked = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/rocketmq/nsaddr"


class _Page(BaseHTTPRequestHandler):
    server: Directory

    def do_GET(self) -> None:
        self.server.asked += 1
        self.send_response(200 if self.path == "/rocketmq/nsaddr" else 404)
        self.end_headers()
        self.wfile.write(self.server.text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def directory() -> Iterator[Directory]:
    with Directory() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("namesrv", "is_url"),
    [
        ("http://host:8080/rocketmq/nsaddr", True),
        ("https://host/ns", True),
        ("http://127.0.0.1:9876", False),
        ("http://127.0.0.1:9876/", False),
        ("127.0.0.1:9876;127.0.0.2:9876", False),
        (["http://host:8080/rocketmq/nsaddr"], False),
    ],
)
def test_a_url_with_a_path_is_where_addresses_are_found(namesrv: str, is_url: bool) -> None:
    assert (discovery_url(namesrv) == namesrv) is is_url


async def test_clients_find_their_name_servers_by_http(directory: Directory, cluster: LocalCluster, topic: str) -> None:
    directory.text = f"{cluster.namesrv};127.0.0.1:1\nanything else"
    async with Producer("p", directory.url) as producer, await BrokerApi.connect(directory.url) as api:
        await producer.send(Message(topic=topic, body=b"x"))
        assert topic in await api.topic_list()
        assert api.name_servers.addresses == (cluster.namesrv, "127.0.0.1:1")


async def test_changes_are_noticed(directory: Directory, topic: str) -> None:
    async with LocalCluster() as cluster:
        directory.text = f"127.0.0.1:1;{cluster.namesrv}"
        async with Producer("p", directory.url, clock=cluster.clock) as producer:
            await producer.send(Message(topic=topic, body=b"x"))
            directory.text = cluster.namesrv
            await cluster.clock.advance_async(seconds=121)
            servers = producer._delivery.instance.name_servers
            await eventually(lambda: servers.addresses == (cluster.namesrv,))
            directory.text = "nonsense"
            await cluster.clock.advance_async(seconds=121)
            assert servers.addresses == (cluster.namesrv,), "what was known stays known"
            await producer.send(Message(topic=topic, body=b"x"))


async def test_what_cannot_be_found_is_said(directory: Directory, topic: str) -> None:
    for text in ("", "nonsense"):
        directory.text = text
        async with Producer("p", directory.url) as producer:
            with pytest.raises(ConnectFailed, match=r"no name server's address at http://127\.0\.0\.1"):
                await producer.send(Message(topic=topic, body=b"x"))
    async with Producer("p", "http://127.0.0.1:1/rocketmq/nsaddr") as producer:
        with pytest.raises(ConnectFailed, match="no name server's address at"):
            await producer.send(Message(topic=topic, body=b"x"))
    with pytest.raises(ClientError, match="not a name server's address"):
        await asyncio.wait_for(BrokerApi.connect("ftp://host/path"), 5)
