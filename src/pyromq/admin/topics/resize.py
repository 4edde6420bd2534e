"""Give a topic more or fewer queues, and lose no message on the way.

More queues are there at once. Fewer come in steps: producers first leave the queues that go, then all groups consume
what is left in them, and only then nobody reads them any more. After each step the topic is sound, and the same call
goes on from there.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from pyromq.admin.groups.snapshot import take_snapshot
from pyromq.admin.masters import Masters, gather_limited
from pyromq.admin.topics.changes import check_queues
from pyromq.admin.topics.consumers import group_names
from pyromq.admin.topics.deletion import TopicDeletions
from pyromq.admin.topics.order_setting import OrderSetting
from pyromq.errors import ClientError
from pyromq.protocol.bodies import MessageModel, TopicConfig
from pyromq.protocol.messages.message import MessageQueue

logger = logging.getLogger(__name__)

SETTLE: Final = 35.0
"""Seconds without a new message in the queues that go. Producers refresh their routes every 30 s, and brokers accept
sends to a queue as long as it is read."""
_PAUSE: Final = 1.0


class DrainingGroup(Struct, frozen=True, kw_only=True):
    """A group of a topic that gets fewer queues."""

    group: str
    members: int
    waiting: int
    """How many messages it has not consumed in the queues that go."""


class ResizePlan(Struct, frozen=True, kw_only=True):
    """What a resize does."""

    topic: str
    queues: int
    settings: Mapping[str, TopicConfig]
    """The present settings, by broker."""
    leaving: tuple[MessageQueue, ...]
    """The queues that go."""
    groups: tuple[DrainingGroup, ...]

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do."""
        shapes = {(config.read_queue_nums, config.write_queue_nums) for config in self.settings.values()}
        return shapes == {(self.queues, self.queues)}


class ResizeProgress(Struct, frozen=True, kw_only=True):
    """How far a resize is."""

    topic: str
    queues: int
    phase: Literal["write", "drain", "done"]
    """`write`: producers have the new number of queues; `drain`: groups consume what is left; `done`."""
    leaving: int = 0
    """The number of queues that go."""
    groups: tuple[DrainingGroup, ...] = ()
    quiet: float = 0.0
    """Seconds since the last message in these queues, as far as was watched."""
    silent_brokers: Mapping[str, str] = {}
    """Brokers that do not answer now; they are waited for."""

    @property
    def waiting(self) -> int:
        """How many messages groups have not consumed in the queues that go."""
        return sum(group.waiting for group in self.groups)


class _Look(Struct, frozen=True):
    """The queues that go, at one moment."""

    ends: Mapping[MessageQueue, int]
    groups: tuple[DrainingGroup, ...]


class TopicResizes(TopicDeletions):
    """Gives topics more or fewer queues."""

    async def plan_resize(self, topic: str, queues: int, *, ignore_groups: Collection[str] = ()) -> ResizePlan:
        """Return what `resize` would do, and change nothing."""
        check_queues(queues)
        settings = await self._settings_of(topic)
        leaving = tuple(
            MessageQueue(topic, name, number)
            for name, config in settings.items()
            for number in range(queues, max(config.read_queue_nums, config.write_queue_nums))
        )
        masters = await self._masters([*settings])
        look = await self._look(masters, leaving, ignore_groups)
        masters.check_all_answered()
        return ResizePlan(topic=topic, queues=queues, settings=settings, leaving=leaving, groups=look.groups)

    async def resize(
        self,
        topic: str,
        queues: int,
        *,
        ignore_groups: Collection[str] = (),
        settle: float = SETTLE,
        timeout: float | None = None,
    ) -> AsyncGenerator[ResizeProgress, None]:
        """Give a topic this number of queues on each of its brokers, and yield how far it is until it is done.

        Queues go when all groups that have members or offsets have consumed them, except `ignore_groups`, and no
        message has come for `settle` seconds. After `timeout` seconds raises ClientError. Whenever it ends early, the
        same call goes on.
        """
        plan = await self.plan_resize(topic, queues, ignore_groups=ignore_groups)
        await self._resize_writes(plan)
        yield ResizeProgress(topic=topic, queues=queues, phase="write", leaving=len(plan.leaving), groups=plan.groups)
        if plan.leaving:
            async for progress in self._drain(plan, ignore_groups, settle, timeout):
                yield progress
        yield ResizeProgress(topic=topic, queues=queues, phase="done", leaving=len(plan.leaving))

    async def _resize_writes(self, plan: ResizePlan) -> None:
        """Let producers have the new number of queues, and consumers the larger one."""
        wanted = {name: _first_step(config, plan.queues) for name, config in plan.settings.items()}
        masters = await self._masters([*wanted])
        await self._update(masters, {name: config for name, config in wanted.items() if config != plan.settings[name]})
        order = OrderSetting(self._namesrv, plan.topic)
        parts = (await order.get() or "").split(";")
        if ordered := [name for name in wanted if any(part.startswith(f"{name}:") for part in parts)]:
            await order.change(dict.fromkeys(ordered, plan.queues))

    async def _drain(
        self, plan: ResizePlan, ignored: Collection[str], settle: float, timeout: float | None
    ) -> AsyncIterator[ResizeProgress]:
        """Wait until the queues that go are consumed and quiet, then take them away."""
        begun = since = self._clock.monotonic()
        ends: Mapping[MessageQueue, int] | None = None
        while True:
            masters = await self._masters([*plan.settings])  # another one may be master by now
            look = await self._look(masters, plan.leaving, ignored)
            now = self._clock.monotonic()
            if look.ends != ends and not masters.silent:
                ends, since = look.ends, now
            progress = ResizeProgress(
                topic=plan.topic,
                queues=plan.queues,
                phase="drain",
                leaving=len(plan.leaving),
                groups=look.groups,
                quiet=now - since,
                silent_brokers=masters.silent,
            )
            yield progress
            is_quiet = now - since >= settle and not masters.silent
            if is_quiet and not progress.waiting and await self._take_away(plan, masters, look.ends):
                return
            if timeout is not None and now - begun >= timeout:
                raise ClientError(_timeout_text(progress, timeout))
            await self._clock.sleep(_PAUSE)

    async def _take_away(self, plan: ResizePlan, masters: Masters, ends: Mapping[MessageQueue, int]) -> bool:
        """Let nobody read the queues that go; return False, and take it back, if a message came in between."""
        small = {
            name: replace(config, read_queue_nums=plan.queues, write_queue_nums=plan.queues)
            for name, config in plan.settings.items()
        }
        await self._update(masters, small)
        if await self._ends(masters, plan.leaving) == ends:
            return True
        logger.info("a message came to a queue that goes: it is read again topic=%s", plan.topic)
        await self._update(masters, {name: _first_step(config, plan.queues) for name, config in plan.settings.items()})
        return False

    # --- looking -----------------------------------------------------------------------------------------------------

    async def _look(self, masters: Masters, leaving: Sequence[MessageQueue], ignored: Collection[str]) -> _Look:
        """Return where the queues that go end, and how much of them groups have not consumed."""
        if not leaving:
            return _Look({}, ())
        ends = await self._ends(masters, leaving)  # before the offsets: a group cannot be ahead of what is compared
        begins = await self._begins(masters, leaving)
        names = [name for name in await group_names(self._calls, masters, leaving[0].topic) if name not in ignored]
        groups = await gather_limited(names, lambda name: self._group(masters, name, begins, ends))
        return _Look(ends, tuple(groups))

    async def _ends(self, masters: Masters, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        return await self._offsets(masters, queues, self._api.max_offset)

    async def _begins(self, masters: Masters, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        return await self._offsets(masters, queues, self._api.min_offset)

    async def _offsets(
        self, masters: Masters, queues: Sequence[MessageQueue], ask: Callable[[str, str, int], Awaitable[int]]
    ) -> dict[MessageQueue, int]:
        async def of_broker(address: str) -> list[tuple[MessageQueue, int]]:
            own = [queue for queue in queues if masters.addresses[queue.broker_name] == address]
            found = await gather_limited(own, lambda queue: ask(address, queue.topic, queue.queue_id))
            return list(zip(own, found, strict=True))

        queues = [queue for queue in queues if queue.broker_name in masters.addresses]
        answers = await masters.ask(of_broker)
        return dict(item for items in answers.values() for item in items)

    async def _group(
        self, masters: Masters, group: str, begins: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int]
    ) -> DrainingGroup:
        online = [
            known
            for known in (await masters.ask(lambda at: self._calls.group_connections(at, group))).values()
            if known is not None
        ]
        ids = {member.client_id for known in online for member in known.connection_set}
        if any(known.message_model is MessageModel.BROADCASTING for known in online):
            done = await self._broadcast_offsets(masters, group, ends)
        else:
            topic = next(iter(ends)).topic if ends else ""
            stats = await masters.ask(lambda at: self._calls.consume_stats(at, group, topic))
            rows = [row for answer in stats.values() for row in answer.offset_table.items()]
            done = [(queue, row.consumer_offset) for queue, row in rows]
        waiting = sum(
            max(ends[queue] - max(offset, begins.get(queue, 0)), 0) for queue, offset in done if queue in ends
        )
        return DrainingGroup(group=group, members=len(ids), waiting=waiting)

    async def _broadcast_offsets(
        self, masters: Masters, group: str, queues: Collection[MessageQueue]
    ) -> list[tuple[MessageQueue, int]]:
        """Return where each member of a broadcasting group is: brokers do not know."""
        snapshot = await take_snapshot(self._calls, masters, group)
        return [(queue, max(state.commit_offset, 0)) for queue in queues for state in snapshot.holders(queue).values()]


def _first_step(config: TopicConfig, queues: int) -> TopicConfig:
    """Return the settings with which nobody writes to queues that go, and all are read."""
    read = max(config.read_queue_nums, config.write_queue_nums, queues)
    return replace(config, read_queue_nums=read, write_queue_nums=queues)


def _timeout_text(progress: ResizeProgress, timeout: float) -> str:
    late = [f"{group.group} ({group.waiting:,})" for group in progress.groups if group.waiting]
    if progress.silent_brokers:
        why = f"{', '.join(progress.silent_brokers)} did not answer"
    elif late:
        why = f"messages wait in the queues that go, of {', '.join(late)}"
    else:
        why = "messages still came to the queues that go"
    return f"not done after {timeout:g} s: {why}; the same command goes on"
