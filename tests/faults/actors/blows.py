"""What is done to brokers in a round of failover.py.

kill        the master is killed
pause       it stands still past its lease, with its clients on their connections
power cut   its disk keeps nothing that is not flushed
handover    it is told to stop (SIGTERM) and hands over
promote     an operator wants another master (`pyromq cluster promote`)
all         all brokers are killed at once, or all lose their power
alone       a slave is killed, a while later the master; the slave comes back first, and may lack messages
new disk    a slave comes back with an empty disk, and the master is killed before or while it copies the log

Where the dates of brokers are set wrong, one is before each of these: an hour ahead, an hour back, or right again.

Where each has a network of its own, for some seconds, with its clients on their connections:

no etcd     the master is cut off from etcd
no slaves   from all slaves
neither     from both
one way     the slaves cannot send to the master, which can send to them
flapping    it is cut off from both, again and again
"""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import signal

from pyromq.admin import AdminClient
from tests.faults.actors.broker_set import NAME, BrokerNode, BrokerSet
from tests.faults.actors.network import ETCD
from tests.faults.journal import PowerFailed, Restarted, Struck

KILL, PAUSE, CUT, HANDOVER, PROMOTE = "kill", "pause", "power cut", "handover", "promote"
ALL, ALONE, NEW_DISK = "all", "alone", "new disk"
NO_ETCD, NO_SLAVES, NEITHER, ONE_WAY, FLAPPING = "no etcd", "no slaves", "neither", "one way", "flapping"
PARTITIONS = (NO_ETCD, NO_SLAVES, NEITHER, ONE_WAY, FLAPPING)
FAILOVERS = (KILL, PAUSE, CUT)
HANDOVERS = (HANDOVER, PROMOTE)
PAST_THE_LEASE = (3.5, 6.0)
HOUR = 3600
ONE_FLUSH = 0.5
"""Seconds that a flush may take on a busy machine: a cut takes what was acknowledged meanwhile, too."""
_PRINTED = r"ASYNC_FLUSH: a power cut can take what was acknowledged in the last (\d+) ms"


class Blows:
    """Strikes brokers of one set, and lets them come back."""

    def __init__(self, brokers: BrokerSet, chance: random.Random) -> None:
        self._brokers = brokers
        self._chance = chance

    # --- one master, and another takes over

    async def strike(self, master: BrokerNode, how: str) -> None:
        """Take the mastership from a broker; `mend` lets it come back."""
        match how:
            case "kill":
                await asyncio.to_thread(master.kill)
            case "pause":
                master.pause()
            case "handover":
                await asyncio.to_thread(master.end, signal.SIGTERM)
            case "promote":
                async with AdminClient(self._brokers.namesrv) as admin:
                    await admin.promote(NAME)
            case "power cut":
                await self._cut([master])

    async def mend(self, master: BrokerNode, how: str) -> None:
        """Let a broker come back."""
        await asyncio.sleep(self._chance.uniform(0.0, 2.0))
        if how == PAUSE:
            master.resume()
        elif how == CUT:
            await self._restore_power([master])
        if how not in (PAUSE, PROMOTE):
            await asyncio.to_thread(master.start)

    # --- several: somebody leads again only when the right ones are back

    async def strike_several(self, master: BrokerNode, how: str) -> None:
        """Strike several brokers and start them again."""
        slave = self._chance.choice([node for node in self._brokers.nodes if node is not master])
        match how:
            case "all":
                await self._all(master)
            case "alone":
                await self._alone(master, slave)
            case "new disk":
                await self._new_disk(master, slave)

    def _forgets(self) -> None:
        """Write down that the last master was killed, and no other was there: offsets are saved every second only."""
        self._brokers.journal.write(Restarted, saved=False)

    async def _all(self, master: BrokerNode) -> None:
        nodes = list(self._brokers.nodes)
        self._chance.shuffle(nodes)
        self._brokers.strike(master, ALL)
        if self._brokers.options.on_disks:
            self._note_window()
            await self._cut(nodes)
            await self._restore_power(nodes)
        else:
            await asyncio.gather(*(asyncio.to_thread(node.kill) for node in nodes))
        self._forgets()
        for node in nodes:
            await asyncio.sleep(self._chance.uniform(0.0, 1.0))
            await asyncio.to_thread(node.start)

    def _note_window(self) -> None:
        """Write down what a power cut of all may take, as the brokers say themselves; nothing with SYNC_FLUSH."""
        windows = [re.findall(_PRINTED, node.log.read_text(errors="replace")) for node in self._brokers.nodes]
        if found := [int(window[-1]) for window in windows if window]:
            self._brokers.journal.write(PowerFailed, window=max(found) / 1000 + ONE_FLUSH)

    async def _alone(self, master: BrokerNode, slave: BrokerNode) -> None:
        self._brokers.strike(slave, ALONE)
        await asyncio.to_thread(slave.kill)
        await asyncio.sleep(self._chance.uniform(0.5, 4.0))
        await self._kill_and_start_later(master, slave, ALONE)

    async def _new_disk(self, master: BrokerNode, slave: BrokerNode) -> None:
        self._brokers.strike(slave, NEW_DISK)
        await asyncio.to_thread(slave.kill)
        await asyncio.to_thread(shutil.rmtree, slave.data)
        await self._kill_and_start_later(master, slave, NEW_DISK)

    async def _kill_and_start_later(self, master: BrokerNode, slave: BrokerNode, how: str) -> None:
        """Kill the master about when the slave starts; the master returns when its lease has run out."""
        kill_after, start_after = self._chance.uniform(0.0, 0.6), self._chance.uniform(*PAST_THE_LEASE)
        starting = asyncio.create_task(asyncio.to_thread(slave.start))
        await asyncio.sleep(kill_after)
        self._brokers.strike(master, how)
        await asyncio.to_thread(master.kill)
        self._forgets()
        await starting
        await asyncio.sleep(start_after)
        await asyncio.to_thread(master.start)

    # --- networks

    async def part(self, master: BrokerNode, how: str) -> None:
        """Cut the network of a master for some seconds."""
        self._brokers.strike(master, how)
        for _ in range(self._chance.randint(4, 8) if how == FLAPPING else 1):
            await asyncio.to_thread(self._part, master, how)
            await asyncio.sleep(self._chance.uniform(0.3, 2.0) if how == FLAPPING else self._chance.uniform(4.0, 9.0))
            assert self._brokers.lab is not None
            await asyncio.to_thread(self._brokers.lab.heal)
            await asyncio.sleep(self._chance.uniform(0.1, 1.0))

    def _part(self, master: BrokerNode, how: str) -> None:
        lab = self._brokers.lab
        assert lab is not None
        slaves = [node for node in self._brokers.nodes if node is not master]
        if how in (NO_ETCD, NEITHER, FLAPPING):
            lab.cut(master.number, ETCD)
        for slave in slaves:
            if how in (NO_SLAVES, NEITHER, FLAPPING):
                lab.cut(master.number, slave.host)
            elif how == ONE_WAY:
                lab.cut(slave.number, master.host)

    async def _cut(self, nodes: list[BrokerNode]) -> None:
        for node in nodes:
            assert node.disk is not None
            node.disk.cut_power()
        await asyncio.gather(*(asyncio.to_thread(node.kill) for node in nodes))
        for node in nodes:
            if node.machine is not None:
                node.machine.boot()

    async def _restore_power(self, nodes: list[BrokerNode]) -> None:
        for node in nodes:
            assert node.disk is not None
            await asyncio.to_thread(node.disk.unmount)
            await asyncio.to_thread(node.disk.mount)

    # --- dates

    def set_a_date(self) -> str:
        """Set the date of a broker; return what was done."""
        node, step = self._chance.choice(self._brokers.nodes), self._chance.choice((-HOUR, 0, HOUR))
        assert node.machine is not None
        node.machine.step(step)
        done = f"date of broker {node.number} {step:+d} s"
        self._brokers.journal.write(Struck, how=done)
        return done

    def set_dates_right(self) -> None:
        """Set the date of every broker right again."""
        for node in self._brokers.nodes:
            if node.machine is not None:
                node.machine.step(0)

    # --- etcd

    async def strike_etcd(self) -> None:
        """Kill the leader of etcd, or its only member, and start it again."""
        etcd = self._brokers.etcd
        index = await asyncio.to_thread(etcd.leader)
        await asyncio.to_thread(etcd.kill, index)
        await asyncio.sleep(self._chance.uniform(0.2, 1.5))
        await asyncio.to_thread(etcd.start, index)
