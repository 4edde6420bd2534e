from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar, get_type_hints

import pytest

import pyromq
from pyromq import Message, MessageExt, blocking
from pyromq.admin import AdminClient as AsyncAdminClient
from pyromq.blocking import AdminClient, LitePullConsumer, Portal, Producer, PushConsumer
from pyromq.client import portal as portal_module
from pyromq.client.config import ProducerOptions
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer as AsyncLitePullConsumer
from pyromq.client.poll.poll_settings import LitePullConsumerOptions
from pyromq.client.push.push_consumer import PushConsumer as AsyncPushConsumer
from pyromq.client.push.push_settings import PushConsumerOptions
from pyromq.client.send.producer import Producer as AsyncProducer
from pyromq.errors import ClientError, ConnectFailed, NoRoute, TopicNotFound
from pyromq.remoting import loop as remoting_loop
from pyromq.testing import LocalCluster, wait_until

T = TypeVar("T")

SOURCE = Path(__file__).parent.parent / "src"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).replace("_", "-")[:100]


def fill(cluster: LocalCluster, topic: str, count: int) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    with Producer("blocking", cluster.namesrv) as producer:
        for body in bodies:
            producer.send(Message(topic=topic, body=body))
    return bodies


def test_messages_are_sent_and_polled(cluster: LocalCluster, topic: str) -> None:
    sent = fill(cluster, topic, 20)
    with Producer("blocking", cluster.namesrv) as producer:
        producer.send_oneway(Message(topic=topic, body=b"oneway"))
        results = producer.send_batch([Message(topic=topic, body=b"batch-1"), Message(topic=topic, body=b"batch-2")])
        assert len({result.message_id for result in results}) == 2
        assert len(producer.queues(topic)) == 4
    found: list[bytes] = []
    with LitePullConsumer("g", cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        while len(found) < 23:
            found += [message.body for message in consumer.poll(timeout=5.0)]
    assert sorted(found) == sorted([*sent, b"oneway", b"batch-1", b"batch-2"])


def test_a_consumer_can_be_iterated_and_committed(cluster: LocalCluster, topic: str) -> None:
    sent = fill(cluster, topic, 20)
    found = []
    with LitePullConsumer("g", cluster.namesrv, {topic: "*"}, start_from="earliest", auto_commit=False) as consumer:
        for message in consumer:
            found.append(message.body)
            if len(found) == 20:
                break
        consumer.commit()
        assert sum(consumer.committed(queue) or 0 for queue in consumer.assignment) == 20
    assert sorted(found) == sorted(sent)


def test_queues_are_steered_from_the_callers_thread(cluster: LocalCluster, topic: str) -> None:
    fill(cluster, topic, 8)
    with LitePullConsumer("steered", cluster.namesrv, start_from="earliest") as consumer:
        queue = consumer.queues(topic)[0]
        consumer.assign([queue])
        assert len(consumer.poll(timeout=5.0)) == 2
        consumer.pause(queue)
        consumer.seek(queue, 1)
        assert consumer.poll(timeout=0.05) == []
        consumer.resume(queue)
        assert len(consumer.poll(timeout=5.0)) == 1
        assert consumer.position(queue) == 2
        consumer.seek_to_begin(queue)
        assert consumer.poll(timeout=5.0)[0].queue_offset == 0
        consumer.seek_to_end(queue)


def test_a_plain_listener_is_called_and_may_use_other_clients(cluster: LocalCluster, topic: str) -> None:
    sent = fill(cluster, topic, 20)
    found: list[bytes] = []
    copied = f"{topic}-copied"
    with Producer("copying", cluster.namesrv) as producer:

        def copy(message: MessageExt) -> None:
            producer.send(Message(topic=copied, body=message.body))
            found.append(message.body)

        with PushConsumer("pushed", cluster.namesrv, {topic: "*"}, copy, start_from="earliest") as consumer:
            running = threading.Thread(target=consumer.run)
            running.start()
            wait_until(lambda: len(found) == 20)
            assert len(consumer.assignment) == 4
            consumer.pause()
            consumer.resume()
            consumer.commit()
            consumer.unsubscribe(topic)
            assert consumer.assignment == []
            consumer.subscribe(topic, "some || tags")
        running.join(10)
        assert not running.is_alive()
        assert producer.find(copied, "0" * 32) is None
    assert sorted(found) == sorted(sent)


def test_errors_come_through_as_they_are(topic: str) -> None:
    with Producer("blocking", "127.0.0.1:1") as producer, pytest.raises(ConnectFailed, match="no name server"):
        producer.send(Message(topic=topic, body=b"x"))
    with pytest.raises(TypeError, match="no_such_option"):
        Producer("blocking", no_such_option=1)  # type: ignore[call-arg]


def test_threads_share_a_producer(cluster: LocalCluster, topic: str) -> None:
    ids: list[str] = []
    with Producer("blocking", cluster.namesrv) as producer:

        def work() -> None:
            for _ in range(50):
                ids.append(producer.send(Message(topic=topic, body=b"x")).message_id)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(ids)) == 200


def test_the_portal_gives_access_to_every_call(cluster: LocalCluster, topic: str) -> None:
    fill(cluster, topic, 4)
    portal = Portal.shared()
    api = portal.call(BrokerApi.connect(cluster.namesrv))
    route = portal.call(api.route(topic))
    address = route.broker_datas[0].broker_addrs[0]
    assert portal.call(api.max_offset(address, topic, 0)) == 1
    with pytest.raises(NoRoute):
        portal.call(api.route("no-such-topic"))
    portal.call(api.close())


def test_a_portal_can_be_closed_and_says_so() -> None:
    portal = Portal()
    assert portal.call(asyncio.sleep(0, "done")) == "done"
    portal.close()
    portal.close()
    with pytest.raises(ClientError, match="closed"):
        portal.call(asyncio.sleep(0))


@pytest.mark.parametrize("loop", [remoting_loop.new_loop, asyncio.new_event_loop])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_what_ends_a_program_reaches_the_caller_and_not_the_other_clients(
    error: BaseException, loop: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portal_module, "new_loop", loop)
    portal = Portal()
    released = portal.call(returns(asyncio.Event()))

    async def wait() -> str:
        await released.wait()
        return "still here"

    async def end() -> None:
        raise error

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(portal.call, wait())
        with pytest.raises(type(error)):
            portal.call(end())
        portal.soon(released.set)
        assert waiting.result(10) == "still here"
    portal.close()
    assert not portal._thread.is_alive()


async def returns(value: T) -> T:
    return value


async def exit_at_once(message: MessageExt) -> None:
    raise SystemExit(3)


def test_a_listener_that_exits_does_not_end_the_other_clients(cluster: LocalCluster, topic: str) -> None:
    fill(cluster, topic, 2)
    with (
        PushConsumer(topic, cluster.namesrv, {topic: "*"}, exit_at_once, start_from="earliest"),
        LitePullConsumer(f"{topic}-2", cluster.namesrv, {topic: "*"}, start_from="earliest") as other,
    ):
        found: list[MessageExt] = []

        def polled(count: int) -> bool:
            found.extend(other.poll(timeout=1))
            return len(found) == count

        wait_until(lambda: polled(2))
        with Producer("p", cluster.namesrv) as producer:
            producer.send(Message(topic=topic, body=b"more"))
        wait_until(lambda: polled(3))


def test_a_blocking_call_on_the_portals_own_loop_is_refused() -> None:
    portal = Portal()

    async def wait_for_itself() -> None:
        portal.call(asyncio.sleep(0))

    with pytest.raises(ClientError, match="wait for itself"):
        portal.call(wait_for_itself())
    portal.close()


def run_in_child(work: object) -> int:
    """Fork, run `work` in the child, and return its exit code."""
    child = os.fork()
    if child == 0:
        try:
            work()  # type: ignore[operator]
            os._exit(0)
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_after_a_fork_old_clients_raise_and_new_ones_work(cluster: LocalCluster, topic: str) -> None:
    with Producer("blocking", cluster.namesrv) as producer:
        producer.send(Message(topic=topic, body=b"parent"))

        def child() -> None:
            with pytest.raises(ClientError, match="forked"):
                producer.send(Message(topic=topic, body=b"old client"))
            producer.close()
            with Producer("child", cluster.namesrv) as own:
                own.send(Message(topic=topic, body=b"child"))

        assert run_in_child(child) == 0
        producer.send(Message(topic=topic, body=b"parent again"))
    with LitePullConsumer("g", cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        found = {next(iter(consumer)).body for _ in range(3)}
    assert found == {b"parent", b"child", b"parent again"}


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
async def test_an_async_client_raises_after_a_fork(cluster: LocalCluster, topic: str) -> None:
    async with AsyncProducer("forking", cluster.namesrv) as producer:
        await producer.send(Message(topic=topic, body=b"x"))

        def child() -> None:
            with pytest.raises(ClientError, match="forked"):
                producer.send(Message(topic=topic, body=b"x")).send(None)

        assert run_in_child(child) == 0


LEFT_OPEN = """
import sys
from pyromq import Message, MessageExt, blocking
consumer = blocking.LitePullConsumer("left-open", sys.argv[1], {sys.argv[2]: "*"}, start_from="earliest")
consumer.start()
producer = blocking.Producer("left-open", sys.argv[1])
producer.start()
producer.send(Message(topic=sys.argv[2], body=b"x"))
print(len(consumer.poll(timeout=5)))
"""


def test_a_script_that_closes_nothing_still_ends(cluster: LocalCluster, topic: str) -> None:
    fill(cluster, topic, 1)
    command = [sys.executable, "-c", LEFT_OPEN, cluster.namesrv, topic]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in {"1", "2"}
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("wrapped", "wrapper", "options"),
    [
        (AsyncProducer, Producer, ProducerOptions),
        (AsyncLitePullConsumer, LitePullConsumer, LitePullConsumerOptions),
        (AsyncPushConsumer, PushConsumer, PushConsumerOptions),
    ],
)
def test_both_faces_have_the_same_names(wrapped: type, wrapper: type, options: type) -> None:
    public = {name for name in dir(wrapped) if not name.startswith("_")}
    assert public <= {name for name in dir(wrapper) if not name.startswith("_")}
    parameters = inspect.signature(wrapped).parameters.values()
    keywords = {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    assert keywords == set(get_type_hints(options))


def test_the_administrators_client_looks_after_a_cluster(cluster: LocalCluster, topic: str) -> None:
    sent = fill(cluster, topic, 8)
    with LitePullConsumer("looked-at", cluster.namesrv, {topic: "*"}), AdminClient(cluster.namesrv) as admin:
        assert topic in admin.topics.names()
        assert list(admin.masters()) == ["broker-a"]
        assert sorted(message.body for message in admin.read(topic)) == sent
        assert next(admin.read(topic)).topic == topic, "a walk may be left half-way"
        assert admin.groups.describe("looked-at", watch=0).lag == 8
        assert "looked-at" in {group.group for group in admin.groups.list().groups}
        assert list(admin.timed_messages.pending(topic)) == []
        with pytest.raises(TopicNotFound, match="has no dead letters"):
            next(admin.dead_letters.read("looked-at"))


async def test_both_faces_of_the_administrators_client_have_the_same_names() -> None:
    async with AsyncAdminClient() as wrapped:
        with AdminClient() as wrapper:
            properties = {name for name, value in vars(AsyncAdminClient).items() if isinstance(value, property)}
            themes = properties - {"api"}
            assert themes == {name for name in vars(wrapper) if not name.startswith("_")}
            for one, other in [(wrapped, wrapper), *((getattr(wrapped, at), getattr(wrapper, at)) for at in themes)]:
                public = {name for name in dir(type(one)) if not name.startswith("_")}
                assert public - {"api", "producer"} <= set(dir(other)), "single calls have no other face"


def test_public_names_are_found_on_first_use_and_unknown_ones_are_not() -> None:
    for name in pyromq.__all__:
        value = getattr(pyromq, name)
        assert name in (getattr(value, "__name__", ""), getattr(value, "name", ""))
    assert set(pyromq.__all__) <= set(dir(pyromq))
    assert blocking.Producer is Producer
    assert isinstance(pyromq.__version__, str)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = pyromq.no_such_name


def test_the_administrators_names_are_found_on_first_use() -> None:
    for name in pyromq.admin.__all__:
        assert getattr(pyromq.admin, name) is not None
    assert set(pyromq.admin.__all__) <= set(dir(pyromq.admin))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = pyromq.admin.no_such_name


def test_importing_the_package_loads_nothing_else() -> None:
    command = [sys.executable, "-c", "import pyromq, sys; print([m for m in sys.modules if m.startswith('pyromq.')])"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SOURCE)})
    assert done.stdout.strip() == "[]"
