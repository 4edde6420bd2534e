"""Commits: one after the other, only where something changed, and a failure of one broker holds up no other."""

from __future__ import annotations

import asyncio

from pyromq.client.consume.commits import Commits
from pyromq.client.consume.offset_store import BrokerOffsets
from pyromq.client.consume.process_queue import ProcessQueue
from pyromq.client.net.calls.answers import CommittedOffset
from pyromq.errors import ConnectFailed
from pyromq.protocol.messages.message import MessageQueue


class Store:
    """Notes what it is told, how many calls overlap, and fails for one broker."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, int, int]] = []
        self.most_at_once = 0
        self._now = 0

    async def load(self, queue: MessageQueue) -> int | None:
        return None

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        await asyncio.sleep(0)
        self._now -= 1
        if queue.broker_name == "down":
            raise ConnectFailed("as the test wants it")
        self.kept.append((queue.broker_name, queue.queue_id, offset))


def held_queues(broker_name: str) -> list[ProcessQueue]:
    queues = [ProcessQueue(MessageQueue("t", broker_name, number)) for number in range(3)]
    for held in queues:
        held.start_at(5)
    return queues


async def test_commits_go_one_after_the_other_whoever_asks_for_them() -> None:
    store = Store()
    commits = Commits(store)
    up, other = held_queues("up"), held_queues("other")
    await asyncio.gather(
        commits.try_commit_consumed(up),
        commits.commit_consumed(other),
        commits.try_commit_last(held_queues("third")[0]),
        commits.commit_up_to(held_queues("fourth")[0], 5),
    )
    assert store.most_at_once == 1
    assert len(store.kept) == 8


async def test_what_did_not_change_is_not_committed_again() -> None:
    store = Store()
    commits = Commits(store)
    queues = held_queues("up")
    assert await commits.try_commit_consumed(queues)
    queues[1].start_at(9)
    assert await commits.try_commit_consumed(queues)
    assert store.kept == [("up", 0, 5), ("up", 1, 5), ("up", 2, 5), ("up", 1, 9)]


async def test_a_broker_that_is_down_holds_up_no_other() -> None:
    store = Store()
    assert not await Commits(store).try_commit_consumed([*held_queues("down"), *held_queues("up")])
    assert store.kept == [("up", 0, 5), ("up", 1, 5), ("up", 2, 5)]


class Master(Store):
    """A store whose offset is known, and which answers when the test says so."""

    def __init__(self, committed: int) -> None:
        super().__init__()
        self.committed = committed
        self.gate = asyncio.Event()
        self.gate.set()

    async def load(self, queue: MessageQueue) -> int | None:
        return self.committed

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        await self.gate.wait()
        await super().commit(queue, offset)
        self.committed = offset


def one_queue(committed: int, consumed: int) -> ProcessQueue:
    held = ProcessQueue(MessageQueue("t", "broker-a", 0))
    held.start_at(consumed)
    held.committed_offset = committed
    return held


async def test_a_commit_never_goes_back_by_itself() -> None:
    store = Master(100)
    held = one_queue(committed=100, consumed=60)
    await Commits(store).commit_consumed([held])
    assert store.kept == []
    held.add([], 120)
    await Commits(store).commit_consumed([held])
    assert [offset for *_, offset in store.kept] == [120]


async def test_after_a_jump_it_goes_back() -> None:
    store = Master(100)
    held = one_queue(committed=100, consumed=100)
    held.jump_to(60)
    await Commits(store).commit_consumed([held])
    await Commits(store).commit_consumed([held])
    assert [offset for *_, offset in store.kept] == [60]


async def test_a_jump_during_a_commit_is_committed_afterwards() -> None:
    store = Master(0)
    store.gate.clear()
    held = one_queue(committed=0, consumed=100)
    commits = Commits(store)
    first = asyncio.create_task(commits.commit_consumed([held]))
    await asyncio.sleep(0)
    held.jump_to(60)
    store.gate.set()
    await first
    await commits.commit_consumed([held])
    assert [offset for *_, offset in store.kept] == [100, 60]


async def test_what_a_slave_said_is_confirmed_before_the_first_commit() -> None:
    """A slave copies offsets now and then: a member that started there must not move the group back."""
    store = Master(100)
    held = one_queue(committed=50, consumed=60)
    held.committed_is_sure = False
    await Commits(store).commit_consumed([held])
    assert store.kept == []
    assert held.committed_offset == 100
    held.add([], 101)
    await Commits(store).commit_consumed([held])
    assert store.committed == 101


async def test_a_store_that_raises_anything_holds_nothing_up() -> None:
    class Broken(Store):
        async def commit(self, queue: MessageQueue, offset: int) -> None:
            raise asyncio.CancelledError if queue.queue_id else KeyError("of its own")

    queues = [ProcessQueue(MessageQueue("t", f"broker-{number}", number)) for number in range(2)]
    for held in queues:
        held.start_at(5)
        await Commits(Broken()).try_commit_last(held)
    assert not await Commits(Broken()).try_commit_consumed(queues)


class Broker(BrokerOffsets):
    """Notes which commits may move the offset back."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, str]] = []
        self.address = "master"
        self.offset: int | None = None

    def keeper_address(self, queue: MessageQueue) -> str:
        return self.address

    async def load_with_source(self, queue: MessageQueue) -> CommittedOffset:
        return CommittedOffset(self.offset, is_sure=self.address == "master")

    async def commit(
        self, queue: MessageQueue, offset: int, *, forward: bool = False, deleted_at: int | None = None
    ) -> None:
        self.kept.append((offset, "forward" if forward else "anywhere"))


async def test_only_the_first_commit_after_a_jump_may_move_the_offset_back() -> None:
    """Another member may have had the queue too, and have finished more of it."""
    broker = Broker()
    commits, held = Commits(broker), held_queues("up")[0]
    for offset in (5, 7):
        held.start_at(offset)
        await commits.commit_consumed([held])
    held.jump_to(2)
    await commits.commit_consumed([held])
    held.start_at(4)
    await commits.commit_consumed([held])
    assert broker.kept == [(5, "forward"), (7, "forward"), (2, "anywhere"), (4, "forward")]


async def test_what_another_broker_has_not_heard_of_is_committed_there_again() -> None:
    """A slave that stands in for its master, or the next master, may lack the last second's commits."""
    broker = Broker()
    commits, held = Commits(broker), held_queues("up")[0]
    held.start_at(5)
    await commits.commit_consumed([held])
    broker.address, broker.offset = "slave", 3
    await commits.commit_consumed([held])
    await commits.commit_consumed([held])
    assert broker.kept == [(5, "forward"), (5, "forward"), (5, "forward")]
    assert not held.committed_is_sure
    broker.address, broker.offset = "master", 5
    await commits.commit_consumed([held])
    assert held.committed_is_sure
    assert len(broker.kept) == 3
