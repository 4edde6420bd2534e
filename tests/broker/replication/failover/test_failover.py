"""Two brokers and an etcd, all real: one leads, the other takes over, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker, Role
from pyromq.client.net.calls.answers import PullStatus, SendAnswer
from pyromq.client.net.calls.broker_api import BrokerApi, read_sent
from pyromq.client.net.name_servers import NameServers
from pyromq.clock import SystemClock
from pyromq.errors import BrokerError, FateUnknown, ServiceNotAvailable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers.send import SendMessageRequestHeaderV2
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.messages.properties import encode_properties
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.connection import Connection, Frames
from pyromq.remoting.round import PlainLane
from pyromq.testing import eventually
from tests.etcd_server import EtcdCluster, etcd_unavailable
from tests.faults.campaign import pull_header


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdCluster]:
    reason = etcd_unavailable()
    if reason:
        pytest.skip(reason)
    with EtcdCluster() as cluster:
        yield cluster


class Brokers:
    """Brokers of one name, each with its directory."""

    def __init__(self, etcd: EtcdCluster, directory: Path, name: str) -> None:
        self._settings = {"failover": etcd.url, "brokerRole": "SYNC_MASTER", "brokerName": name, "listenPort": "0"}
        self._directory = directory
        self._stacks: dict[Broker, AsyncExitStack] = {}
        self.client = RemotingClient(SystemClock())

    async def start(self, number: int) -> Broker:
        root = self._directory / str(number)
        config = broker_config({**self._settings, "brokerId": str(number), "storePathRootDir": str(root)})
        broker = Broker(config, SystemClock())
        stack = AsyncExitStack()
        await stack.enter_async_context(broker)
        self._stacks[broker] = stack
        return broker

    async def stop(self, broker: Broker) -> None:
        await self._stacks.pop(broker).aclose()

    async def close(self) -> None:
        for broker in list(self._stacks):
            await self.stop(broker)

    async def send(self, broker: Broker, body: bytes, **properties: str) -> int:
        """Return the code of the answer to a send."""
        return (await self._answer(broker, body, **properties)).code

    async def send_and_read(self, broker: Broker, body: bytes) -> SendAnswer:
        """Return the answer to a send as clients read it."""
        return read_sent(await self._answer(broker, body))

    async def _answer(self, broker: Broker, body: bytes, **properties: str) -> RemotingCommand:
        header = SendMessageRequestHeaderV2(
            producer_group="p",
            topic="orders",
            default_topic="TBW102",
            default_topic_queue_nums=1,
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties=encode_properties(properties),
        )
        command = request(RequestCode.SEND_MESSAGE_V2, header, body)
        return await self.client.request(broker.address, command, 10.0)

    async def pair(self) -> tuple[Broker, Broker]:
        """Return a master and the slave in its set."""
        master = await self.start(1)
        await eventually(lambda: master.role is Role.MASTER)
        slave = await self.start(2)
        await eventually(lambda: len(members(master)) == 2)
        return master, slave


def members(broker: Broker) -> frozenset[str]:
    coordinator = broker._coordinator
    assert coordinator is not None
    return coordinator.replicas.set.written if coordinator.replicas is not None else frozenset()


def counted(broker: Broker) -> list[int]:
    """Return a list in which the broker's lane notes how many messages it has taken, read by read."""
    taken: list[int] = []

    def noting(lane: PlainLane) -> PlainLane:
        def noted(frames: Frames, first: int, most: int, connection: Connection) -> int:
            taken.append(lane.take(frames, first, most, connection))
            return taken[-1]

        return PlainLane(noted)

    lanes = broker._ports.lanes
    lanes.update({handler: noting(lane) for handler, lane in lanes.items()})
    return taken


@pytest.fixture
async def brokers(etcd: EtcdCluster, tmp_path: Path) -> AsyncIterator[Brokers]:
    made = Brokers(etcd, tmp_path, f"broker-{tmp_path.name}"[:60].replace("_", "-"))
    async with made.client:
        yield made
        await made.close()


async def test_a_message_is_acknowledged_and_visible_once_the_set_has_it(brokers: Brokers) -> None:
    master, slave = await brokers.pair()
    assert await brokers.send(master, b"one") == ResponseCode.SUCCESS
    assert slave.store.max_physical_offset == master.store.max_physical_offset
    assert master.store.max_offset("orders", 0) == 1
    await eventually(lambda: slave.store.max_offset("orders", 0) == 1)
    assert await brokers.send(slave, b"two") == ResponseCode.SERVICE_NOT_AVAILABLE


@pytest.mark.parametrize("delay", [{"DELAY": "1"}, {"TIMER_DELAY_MS": "100"}], ids=["level", "timer"])
async def test_a_delayed_message_is_delivered_although_no_other_follows_it(
    brokers: Brokers, delay: dict[str, str]
) -> None:
    """It is in the log before it is visible: whoever looks for it only then waits for ever."""
    master, _ = await brokers.pair()
    assert await brokers.send(master, b"later", **delay) == ResponseCode.SUCCESS
    await eventually(lambda: master.store.max_offset("orders", 0) == 1)


async def test_a_master_that_stops_hands_over(brokers: Brokers) -> None:
    master, slave = await brokers.pair()
    assert await brokers.send(master, b"one") == ResponseCode.SUCCESS
    await brokers.stop(master)
    await eventually(lambda: slave.role is Role.MASTER)
    await eventually(lambda: slave.store.max_offset("orders", 0) == 1)
    again = await brokers.start(1)
    await eventually(lambda: len(members(slave)) == 2)
    assert await brokers.send(slave, b"two") == ResponseCode.SUCCESS
    assert again.store.max_physical_offset == slave.store.max_physical_offset


async def test_an_operator_chooses_another_master(brokers: Brokers) -> None:
    master, slave = await brokers.pair()
    assert await brokers.send(master, b"one") == ResponseCode.SUCCESS
    done = await slave.handover.take_over(force=False)
    assert slave.role is Role.MASTER
    assert (done.epoch, done.is_forced, done.old_master) == (slave.history.epochs.number, False, master.address)
    assert slave.replication.role == "SYNC_MASTER"
    assert slave.replication.last_failover is not None
    await eventually(lambda: len(members(slave)) == 2)
    await eventually(lambda: slave.replication.in_sync() == ["1"])
    with pytest.raises(BrokerError, match="master already"):
        await slave.handover.take_over(force=False)


async def test_a_broker_outside_the_set_becomes_master_by_force_only(brokers: Brokers) -> None:
    master, slave = await brokers.pair()
    await brokers.stop(slave)
    await eventually(lambda: len(members(master)) == 1)
    assert await brokers.send(master, b"one") == ResponseCode.SLAVE_NOT_AVAILABLE
    await brokers.stop(master)
    again = await brokers.start(2)
    assert again._coordinator is not None
    problem = again._coordinator
    await eventually(lambda: "in-sync set" in problem.problem)
    with pytest.raises(BrokerError, match="by force"):
        await again.handover.take_over(force=False)
    done = await again.handover.take_over(force=True)
    assert done.is_forced
    assert again.role is Role.MASTER


async def test_a_slave_that_goes_leaves_the_set_and_the_master_goes_on_alone(brokers: Brokers) -> None:
    master, slave = await brokers.pair()
    await brokers.stop(slave)
    answers = asyncio.gather(*(brokers.send(master, b"%d" % number) for number in range(3)))
    assert set(await answers) <= {ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT}
    await eventually(lambda: len(members(master)) == 1)
    assert await brokers.send(master, b"last") == ResponseCode.SLAVE_NOT_AVAILABLE
    await eventually(lambda: master.store.max_offset("orders", 0) == 4)


async def test_a_master_that_may_be_deposed_moves_no_consumer_back_and_gives_no_lock(brokers: Brokers) -> None:
    """What it shows may end before what the next master has shown already."""
    master, _ = await brokers.pair()
    assert await brokers.send(master, b"one") == ResponseCode.SUCCESS
    coordinator = master._coordinator
    assert coordinator is not None
    assert coordinator.replicas is not None
    api = BrokerApi(brokers.client, NameServers(brokers.client, []))
    queue = MessageQueue("orders", master.name, 0)
    async with coordinator._turn:  # it does not become a slave meanwhile
        answer = await api.pull(master.address, pull_header("orders", 0, 3), timeout=10)
        assert (answer.status, answer.next_offset) == (PullStatus.OFFSET_MOVED, 1), "a master knows where it ends"
        coordinator.replicas.end()
        answer = await api.pull(master.address, pull_header("orders", 0, 3), timeout=10)
        assert (answer.status, answer.next_offset) == (PullStatus.NO_NEW_MESSAGE, 3)
        with pytest.raises(ServiceNotAvailable):
            await api.lock(master.address, "billing", "somebody", [queue])


async def test_a_refused_message_that_is_in_the_log_is_not_called_unsent(brokers: Brokers) -> None:
    """A producer without retries would send it twice: its master may stay master after all."""
    master, slave = await brokers.pair()
    coordinator = master._coordinator
    assert coordinator is not None
    assert coordinator.replicas is not None
    await brokers.send(master, b"one")
    async with coordinator._turn:
        await slave._follower.stop()  # it confirms nothing any more
        end = master.store.max_physical_offset
        sending = asyncio.create_task(brokers.send_and_read(master, b"two"))
        await eventually(lambda: master.store.max_physical_offset > end)
        coordinator.replicas.end()
        with pytest.raises(FateUnknown, match="is not known"):
            await sending
        with pytest.raises(ServiceNotAvailable) as refused:
            await brokers.send_and_read(master, b"three")
        assert not isinstance(refused.value, FateUnknown), "this one is not in the log"


async def test_plain_messages_take_the_lane_while_their_broker_is_surely_master(brokers: Brokers) -> None:
    master, slave = await brokers.pair()
    coordinator = master._coordinator
    assert coordinator is not None
    assert coordinator.replicas is not None
    await brokers.send(master, b"one")  # it makes the topic
    taken = counted(master)
    assert await brokers.send(master, b"two", UNIQ_KEY="7F000001" * 4) == ResponseCode.SUCCESS
    assert sum(taken) == 1
    assert slave.store.max_physical_offset == (end := master.store.max_physical_offset)
    async with coordinator._turn:
        coordinator.replicas.end()
        assert await brokers.send(master, b"three") == ResponseCode.SERVICE_NOT_AVAILABLE
    assert master.store.max_physical_offset == end


async def test_a_slave_that_was_away_joins_again(brokers: Brokers) -> None:
    master, slave = await brokers.pair()
    await brokers.stop(slave)
    await eventually(lambda: len(members(master)) == 1)
    assert await brokers.send(master, b"one") == ResponseCode.SLAVE_NOT_AVAILABLE
    again = await brokers.start(2)
    await eventually(lambda: len(members(master)) == 2)
    assert await brokers.send(master, b"two") == ResponseCode.SUCCESS
    assert again.store.max_physical_offset == master.store.max_physical_offset
