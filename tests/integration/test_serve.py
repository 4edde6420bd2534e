"""A copy of a store, served read-only to real clients."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from pyromq import Message, blocking
from pyromq.broker.requests import REQUESTS
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.clock import SystemClock
from pyromq.errors import PyroMQError
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.pull import QueryMessageRequestHeader
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.record import decode_messages
from pyromq.remoting.client import RemotingClient
from pyromq.testing import LocalCluster
from tests.store.helpers import message, small_store

COUNT = 60


class Served(NamedTuple):
    namesrv: str
    broker: str


@contextmanager
def serving(directory: Path, *extra: str) -> Iterator[Served]:
    """Run `pyromq store serve` in a separate process."""
    ports = ["--port", "0", "--namesrv-port", "0"]
    command = [sys.executable, "-m", "pyromq.cli.main", "store", "serve", str(directory), *ports, *extra]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    found = re.match(r"PyroMQ store ready: namesrv (\S+) broker (\S+) read-only ", line)
    try:
        assert found, (line, process.stderr.read() if process.poll() is not None else "")
        yield Served(found[1], found[2])
    finally:
        process.terminate()
        assert process.wait(30) == 0
        process.stdout.close()
        process.stderr.close()


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of a broker's store: a topic with messages, and the offsets of a group."""
    data = tmp_path_factory.mktemp("origin")
    with LocalCluster(data=data, settings={"mappedFileSizeCommitLog": 1 << 20}) as cluster:
        with blocking.Producer("ours", cluster.namesrv) as producer:
            for number in range(COUNT):
                properties = {"number": str(number)}
                producer.send(
                    Message(topic="orders", body=b"%d" % number, keys=[f"k-{number}"], properties=properties, tags="t")
                )
        with blocking.LitePullConsumer("half", cluster.namesrv, {"orders": "*"}, start_from="earliest") as consumer:
            seen = 0
            while seen < COUNT:
                seen += len(consumer.poll(timeout=10.0))
            consumer.commit()
    copy = tmp_path_factory.mktemp("copy")
    shutil.copytree(data / "store", copy / "store")
    return copy


@pytest.fixture(scope="module")
def served(copied: Path) -> Iterator[Served]:
    before = contents(copied)
    with serving(copied) as running:
        yield running
    assert contents(copied) == before, "something was written"


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def read_all(namesrv: str, topic: str, count: int, group: str = "reader") -> list[MessageExt]:
    with blocking.LitePullConsumer(group, namesrv, {topic: "*"}, start_from="earliest") as consumer:
        messages: list[MessageExt] = []
        while len(messages) < count:
            found = consumer.poll(timeout=10.0)
            assert found, f"only {len(messages)} of {count} came"
            messages += found
    return messages


def test_a_client_reads_every_message_of_the_copy(served: Served) -> None:
    messages = read_all(served.namesrv, "orders", COUNT)
    assert sorted(int(one.body) for one in messages) == list(range(COUNT))
    assert all(one.keys == (f"k-{int(one.body)}",) for one in messages)


@pytest.mark.skipif(importlib.util.find_spec("rocketmq") is None, reason="PyPI's rocketmq is not installed")
def test_apaches_cpp_client_pulls_every_message_of_the_copy(served: Served, tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("cpp_scenarios.py")), "pull", served.namesrv, "orders"]
    environment = {**os.environ, "HOME": str(tmp_path)}  # it writes its logs there
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert sorted(int(one["body"]) for one in found) == list(range(COUNT)), done.stderr


def test_a_group_goes_on_where_the_directory_says(served: Served) -> None:
    with blocking.LitePullConsumer("half", served.namesrv, {"orders": "*"}, start_from="earliest") as consumer:
        assert consumer.poll(timeout=1.0) == []


def test_commits_last_as_long_as_the_server(served: Served) -> None:
    with blocking.LitePullConsumer("once", served.namesrv, {"orders": "*"}, start_from="earliest") as consumer:
        seen = 0
        while seen < COUNT:
            seen += len(consumer.poll(timeout=10.0))
        consumer.commit()
    with blocking.LitePullConsumer("once", served.namesrv, {"orders": "*"}, start_from="earliest") as consumer:
        assert consumer.poll(timeout=1.0) == []


def test_a_send_is_refused_in_plain_words(served: Served) -> None:
    with blocking.Producer("ours", served.namesrv) as producer, pytest.raises(PyroMQError, match="orders"):
        producer.send(Message(topic="orders", body=b"no"))


@pytest.mark.parametrize("code", REQUESTS.codes(lambda row: row.writes), ids=lambda code: RequestCode(code).name)
async def test_what_would_change_something_is_refused(served: Served, code: int) -> None:
    async with RemotingClient(SystemClock()) as remoting:
        answer = await remoting.request(served.broker, request(code), 10.0)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark is not None
    assert "read-only" in answer.remark


async def test_messages_are_found_by_key(served: Served) -> None:
    header = QueryMessageRequestHeader(topic="orders", key="k-7", max_num=8, begin_timestamp=0, end_timestamp=2**62)
    async with RemotingClient(SystemClock()) as remoting:
        answer = await remoting.request(served.broker, request(RequestCode.QUERY_MESSAGE, header), 10.0)
        assert [one.body for one in decode_messages(answer.body)] == [b"7"]
        header = msgspec.structs.replace(header, key="none")
        answer = await remoting.request(served.broker, request(RequestCode.QUERY_MESSAGE, header), 10.0)
        assert answer.code == ResponseCode.QUERY_NOT_FOUND


async def test_offsets_are_answered(served: Served) -> None:
    async with await BrokerApi.connect(served.namesrv) as api:
        route = await api.route("orders")
        queues = range(route.queue_datas[0].read_queue_nums)
        ends = [await api.max_offset(served.broker, "orders", queue_id) for queue_id in queues]
        assert sum(ends) == COUNT
        assert [await api.min_offset(served.broker, "orders", queue_id) for queue_id in queues] == [0] * len(ends)
        assert all(data.perm == 4 for data in route.queue_datas)


def test_a_directory_without_tables_shows_the_topics_of_its_queues(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        for number in range(5):
            store.put(message(topic="found", queue_id=number % 2, body=b"%d" % number))
    with serving(tmp_path) as served:
        assert {one.body for one in read_all(served.namesrv, "found", 5)} == {b"0", b"1", b"2", b"3", b"4"}


def test_a_live_directory_is_followed(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        store.put(message(body=b"before"))
        store.commit()
        with serving(tmp_path) as served:
            consumer = blocking.LitePullConsumer("live", served.namesrv, {"orders": "*"}, start_from="earliest")
            with consumer:
                assert [one.body for one in consumer.poll(timeout=10.0)] == [b"before"]
                store.put(message(body=b"after"))
                store.commit()
                assert [one.body for one in consumer.poll(timeout=20.0)] == [b"after"]
