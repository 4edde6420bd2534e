"""What goes wrong in the chaos campaign, one trouble after another."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyromq import PyroMQError
from pyromq.admin import AdminClient
from tests.faults.actors.listeners import Listening
from tests.faults.actors.members import MemberProcess, MemberTask, make_consumer
from tests.faults.actors.roles import ROLES, Role
from tests.faults.actors.stage import TABLES, Stage
from tests.faults.journal import Journal, Moved


class Troubles:
    """Makes trouble, and owns the members that suffer from it."""

    def __init__(self, stage: Stage, directory: Path, seed: int, *, small_disk: bool) -> None:
        self._stage = stage
        self._directory = directory
        self._seed = seed
        self._chance = random.Random(f"{seed} troubles")
        self._journal = Journal(directory / "operator.jsonl", "operator")
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.tasks = [self._new_task(role, number) for role in ROLES for number in range(role.tasks)]
        self.processes: list[MemberProcess] = []
        self._born = 0
        self._of_broker: list[Callable[[], Awaitable[None]]] = [
            *[self.kill_broker] * 2, *[self.stop_broker] * 2, self.freeze_broker, *[self.block_table] * 3,
            self.kill_with_blocked_table, *[self.fill_disk] * (3 if small_disk else 0),
        ]  # fmt: skip
        self._of_members: list[Callable[[], Awaitable[None]]] = [
            *[self.kill_member] * 3, *[self.stop_member] * 2, *[self.start_impostor] * 2, *[self.reset] * 2,
        ]  # fmt: skip

    def _new_task(self, role: Role, number: int) -> MemberTask:
        chance = random.Random(f"{self._seed} {role.group} {number}")
        return MemberTask(role, self._stage.namesrv, self._directory, self._seed, chance)

    def open(self) -> None:
        """Start the processes."""
        for role in ROLES:
            for _ in range(role.processes):
                self._start_process(role)

    def _start_process(self, role: Role) -> None:
        self._born += 1
        name = f"{role.group}-process-{self._born}"
        self.processes.append(MemberProcess(role, self._stage.namesrv, self._directory, name, self._seed))

    async def run(self, seconds: float) -> None:
        """Make trouble for so long."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._go_on("broker", self._of_broker, seconds, 2.0))
            group.create_task(self._go_on("members", self._of_members, seconds, 1.0))

    async def _go_on(
        self, name: str, troubles: list[Callable[[], Awaitable[None]]], seconds: float, pause: float
    ) -> None:
        chance = random.Random(f"{self._seed} {name}")  # its own, so that the order of troubles is that of the seed
        end = time.monotonic() + seconds
        while True:
            await asyncio.sleep(chance.uniform(0, 2 * pause))
            if time.monotonic() >= end:
                return
            trouble = chance.choice(troubles)
            self.counts[trouble.__name__] += 1
            await trouble()

    async def close(self) -> None:
        """End all processes."""
        processes, self.processes = self.processes, []
        await asyncio.gather(*(self._stop(process) for process in processes))
        self._journal.close()

    async def _stop(self, process: MemberProcess) -> None:
        code = await asyncio.to_thread(process.end, signal.SIGTERM)
        if code not in (0, -signal.SIGTERM):  # the second, if it had not yet begun
            self.problems.append(f"a member of {process.role.group} ended with {code}")

    # --- of the broker

    async def kill_broker(self) -> None:
        """Kill it with `kill -9`."""
        await self._stage.restart(signal.SIGKILL, self._chance.choice((0.0, 0.0, 1.0)))

    async def stop_broker(self) -> None:
        """Stop it properly."""
        await self._stage.restart(signal.SIGTERM, self._chance.choice((0.0, 0.5)))

    async def freeze_broker(self) -> None:
        """Let it hang."""
        await self._stage.freeze(self._chance.uniform(0.2, 3.0))

    async def block_table(self) -> None:
        """Let the writes of a table fail."""
        await self._stage.block(self._chance.choice(TABLES), self._chance.uniform(0.3, 3.0))

    async def kill_with_blocked_table(self) -> None:
        """Kill or stop it while a table cannot be written."""
        how = self._chance.choice((signal.SIGKILL, signal.SIGTERM))
        blocked = self._stage.block(self._chance.choice(TABLES), 2.0)
        await asyncio.gather(blocked, self._stage.restart(how, 0.0))

    async def fill_disk(self) -> None:
        """Fill the disk."""
        await self._stage.fill_disk(self._chance.uniform(0.2, 2.0))

    # --- of members

    async def kill_member(self) -> None:
        """Kill a process; another takes its place."""
        process = self.processes.pop(self._chance.randrange(len(self.processes)))
        await asyncio.to_thread(process.end, signal.SIGKILL)
        self._start_process(process.role)

    async def stop_member(self) -> None:
        """Stop a process; another takes its place."""
        process = self.processes.pop(self._chance.randrange(len(self.processes)))
        await self._stop(process)
        self._start_process(process.role)

    async def start_impostor(self) -> None:
        """Start a second consumer of the same group and instance name: it is refused, and must not harm the first."""
        member = self._chance.choice(self.tasks)
        listening = Listening(member.role, self._journal, self._seed)
        if member.role.alone:
            return  # if the first is just away, it would be no impostor but a second reader
        impostor = make_consumer(member.role, self._stage.namesrv, listening, instance_name=member.house_name)
        try:
            async with impostor:
                await asyncio.sleep(0.2)
        except PyroMQError:
            self.counts["refused impostors"] += 1

    async def reset(self) -> None:
        """Let an operator put a group back to the beginning, or some seconds."""
        role = self._chance.choice([role for role in ROLES if role.resets])
        back = datetime.now(UTC) - timedelta(seconds=self._chance.uniform(0, 5))
        since = time.monotonic()
        try:
            async with AdminClient(self._stage.namesrv) as admin:
                plan = await admin.groups.plan_reset(role.group, self._chance.choice(("earliest", back)))
                since = time.monotonic()
                moves = plan.moves
                try:
                    moves += await admin.groups.reset(plan)
                finally:
                    for move in set(moves):
                        self._journal.write(Moved, group=role.group, queue=move.queue, offset=move.after, since=since)
        except PyroMQError:
            self.counts["refused resets"] += 1
