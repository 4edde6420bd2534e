"""Several name servers as one, and name servers found by HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pyromq.client.net.address import discovery_url
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.name_servers import NameServers
from pyromq.client.send.producer import Producer
from pyromq.clock import SystemClock
from pyromq.errors import ClientError, ConnectFailed
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.routes import GetRouteInfoByTopicRequestHeader
from pyromq.protocol.messages.message import Message
from pyromq.remoting.client import RemotingClient
from pyromq.testing import LocalCluster, TestClock, eventually
from tests.client.helpers import Proxy


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


# --- several of them --------------------------------------------------------------------------------------------------

ROUTE = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoByTopicRequestHeader(topic="orders"))


@pytest.fixture
async def hung() -> AsyncIterator[str]:
    """The address of a server that takes connections and answers nothing."""

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass
        writer.close()

    async with await asyncio.start_server(swallow, "127.0.0.1", 0) as listener:
        yield f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"


def servers(remoting: RemotingClient, *addresses: str) -> NameServers:
    """Return these name servers, of which the first is asked first."""
    found = NameServers(remoting, addresses)
    found._chosen = 0
    return found


async def test_the_next_server_is_asked_after_a_share_of_the_time(
    cluster: LocalCluster, hung: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = TestClock()
    async with RemotingClient(clock) as remoting:
        names = servers(remoting, hung, cluster.namesrv)
        asking = asyncio.create_task(names.call(ROUTE, 80.0))
        await eventually(lambda: remoting.ready(hung) is not None)
        await clock.advance_async(seconds=18)
        assert not asking.done()
        await clock.advance_async(seconds=4)
        assert (await asking).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await asyncio.wait_for(names.call(ROUTE, 80.0), 10)).code == ResponseCode.TOPIC_NOT_EXIST
        assert caplog.messages == []
        while remoting.ready(hung) is not None:  # nothing has come over this connection: it is closed
            await clock.advance_async(seconds=10)
        (text,) = [message for message in caplog.messages if "name server" in message]
        assert text.startswith(f"name server {hung} does not answer, another one does: no answer within ")


async def test_a_slow_server_is_not_given_up_when_the_next_one_is_asked(cluster: LocalCluster, hung: str) -> None:
    clock = TestClock()
    async with Proxy(cluster.namesrv) as slow, RemotingClient(clock) as remoting:
        slow.hold()
        names = servers(remoting, slow.address, hung)
        asking = asyncio.create_task(names.call(ROUTE, 80.0))
        await eventually(lambda: remoting.ready(slow.address) is not None)
        await clock.advance_async(seconds=30)
        await eventually(lambda: remoting.ready(hung) is not None)
        slow.release()
        assert (await asyncio.wait_for(asking, 10)).code == ResponseCode.TOPIC_NOT_EXIST


async def test_all_that_do_not_answer_are_named_when_the_time_is_up(hung: str) -> None:
    clock = TestClock()
    async with RemotingClient(clock) as remoting:
        asking = asyncio.create_task(servers(remoting, hung, "127.0.0.1:1").call(ROUTE, 80.0))
        await eventually(lambda: remoting.ready(hung) is not None)
        while not asking.done():
            await clock.advance_async(seconds=10)
        with pytest.raises(ConnectFailed) as failure:
            await asking
    assert f"{hung} (no answer" in str(failure.value)
    assert "127.0.0.1:1 (" in str(failure.value)


async def test_a_server_that_refuses_is_named_once_although_the_next_one_answers(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with RemotingClient(SystemClock()) as remoting:
        names = servers(remoting, "127.0.0.1:1", cluster.namesrv)
        for _ in range(3):
            names._chosen = 0
            assert (await names.call(ROUTE, 3.0)).code == ResponseCode.TOPIC_NOT_EXIST
    (text,) = caplog.messages
    assert text.startswith("name server 127.0.0.1:1 does not answer, another one does: ")
