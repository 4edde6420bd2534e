"""Brokers of one name, each in a process of its own, with a name server and an etcd; who is master is seen in etcd."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pyromq import PyroMQError
from pyromq.broker.replication.failover.etcd_state import ClusterView, Keys, KeyValue, read_view
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.answers import PullStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import NoRoute
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import dlq_topic, retry_topic
from tests.etcd_server import EtcdCluster
from tests.faults.actors import network, planted
from tests.faults.actors.java_witness import JAVA
from tests.faults.actors.listeners import value_of
from tests.faults.actors.machine import Machine
from tests.faults.actors.roles import KEYED, LATER, MAIN, QUEUES, SUCCESSION_ROLES, Role, form_groups
from tests.faults.actors.stage import SETTINGS
from tests.faults.campaign import free_ports, pull_header
from tests.faults.journal import AnyEvent, Buried, Committed, Journal, Reigned, Stored, Struck
from tests.faults.power_cut import Disk

NAME = "broker-a"
CLUSTER = "DefaultCluster"
TOPICS = (MAIN, KEYED, LATER)
READY_WITHIN = 120.0  # on a machine that is busy with other work, an interpreter alone may need half a minute
_WATCHED_EVERY = 0.1
_OBSERVED_EVERY = 0.3
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
PRODUCT = ("-m", "pyromq.cli.main")


class ServerProcess:
    """A server of the command line in a process of its own; it returns to its address."""

    def __init__(self, arguments: Sequence[str], log: Path, *, program: Sequence[str] = PRODUCT) -> None:
        self.program = program
        self.arguments = list(arguments)
        self.log = log
        self.environment: dict[str, str] = {}
        self.within: Sequence[str] = ()
        """What its command begins with: a network of its own."""
        self.is_paused = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether it can do something: it lives and is not paused."""
        return self._process is not None and self._process.poll() is None and not self.is_paused

    def start(self) -> None:
        """Start it and wait until it says that it is ready; raises RuntimeError."""
        command = [*self.within, sys.executable, *self.program, *self.arguments]
        with self.log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, env={**os.environ, **self.environment}
            )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], READY_WITHIN)
        if not ready or b"ready" not in self._process.stdout.readline():
            self.kill()
            raise RuntimeError(f"{' '.join(command)} did not start:\n{self.log.read_text(errors='replace')[-4000:]}")

    def pause(self) -> None:
        """Let it stand still, with its connections open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        """Let a paused one go on."""
        assert self._process is not None
        self.is_paused = False
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it, paused or not; nothing if it is dead already."""
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals, within: float = 60.0) -> int | None:
        """Send a signal and wait until it has exited; return its exit code. One that does not exit is killed."""
        if self._process is None:
            return None
        process, self._process = self._process, None
        self.is_paused = False
        process.send_signal(how)
        try:
            return process.wait(within)
        except subprocess.TimeoutExpired:
            return None
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


class BrokerNode(ServerProcess):
    """One broker of the set."""

    def __init__(
        self, number: int, place: Path, arguments: Sequence[str], disk: Disk | None, host: str = "127.0.0.1"
    ) -> None:
        _, port = free_ports()
        self.number = number
        self.host = host
        self.address = f"{host}:{port}"
        self.disk = disk
        self.machine: Machine | None = None
        self.is_slow = False
        self.data = (disk.root if disk is not None else place) / f"data-{number}"
        listen = ["broker", "--name", NAME, "--host", host, "--port", str(port), "--data", str(self.data)]
        super().__init__(
            [*listen, *arguments, "--set", f"brokerId={number}"], place / f"broker-{number}.log", program=PRODUCT
        )

    @property
    def commit_log(self) -> Path:
        return self.data / "store" / "commitlog"


class SetOptions(Struct, frozen=True, kw_only=True):
    """What a set of brokers is like."""

    brokers: int = 2
    etcd: int = 1
    """Members of etcd: 1 or 3."""
    flush: str = "ASYNC_FLUSH"
    settings: tuple[str, ...] = ()
    on_disks: bool = False
    """Each broker has a disk that can lose its power."""
    in_lab: bool = False
    """Each broker has a network of its own, which can be cut."""
    slow: int = 0
    """How many brokers, the last ones, get what they are sent over a slow link."""
    clocks: bool = False
    """The date of one broker after the other is set wrong. Then there are no delays, which go by the date."""
    java: bool = False
    """Clients of Apache's take part."""

    @property
    def roles(self) -> list[Role]:
        """The groups."""
        roles = [replace(role, mishaps=0.0) for role in SUCCESSION_ROLES] if self.clocks else SUCCESSION_ROLES
        return [*roles, JAVA] if self.java else roles


class BrokerSet:
    """All of it; what it sees is written to a journal."""

    def __init__(self, directory: Path, options: SetOptions) -> None:
        self.directory = directory
        self.options = options
        self.journal = Journal(directory / "stage.jsonl", "stage")
        form_groups(self.journal, options.roles)
        self.lab = network.Lab() if options.in_lab else None
        self.etcd = EtcdCluster(options.etcd, network.ETCD) if self.lab else EtcdCluster(options.etcd)
        port, _ = free_ports()
        host = network.CLIENTS if self.lab else "127.0.0.1"
        self.namesrv = f"{host}:{port}"
        self.name_server = ServerProcess(["namesrv", "--host", host, "--port", str(port)], directory / "namesrv.log")
        self.nodes: list[BrokerNode] = []
        self.view: ClusterView | None = None
        """What etcd said last."""
        self.seen = 0.0
        """When that was."""
        self.reign: Reigned | None = None
        """The last that was seen; its master may be gone."""
        self.problems: list[str] = []
        """Elections that should not have been."""
        self.elections = 0
        """How many were looked at."""
        self._keys = Keys.of(CLUSTER, NAME)
        self._watching: list[asyncio.Future[None]] = []

    # --- start and end

    async def open(self, program: Callable[[int], Sequence[str]] = lambda number: PRODUCT) -> None:
        """Start everything, wait for a master, and create the topics."""
        if self.lab is not None:
            self.lab.open()
        await asyncio.to_thread(self.etcd.start)
        await asyncio.to_thread(self.name_server.start)
        for number in range(1, self.options.brokers + 1):
            node = self._new_node(number)
            node.is_slow = number > self.options.brokers - self.options.slow
            node.program = self._program(node) or program(number)
            self.nodes.append(node)
        await asyncio.gather(*(asyncio.to_thread(node.start) for node in self.nodes))
        self._watching = [asyncio.ensure_future(self._watch()), asyncio.ensure_future(self._observe())]
        master = await self.master(READY_WITHIN)
        async with await BrokerApi.connect(self.namesrv) as api:
            for topic in TOPICS:
                await _create(api, master.address, topic)

    def _program(self, node: BrokerNode) -> Sequence[str]:
        """Return what runs a broker on a slow link, or on a machine of its own; nothing for others."""
        faults = [planted.SLOW_LINK] * node.is_slow
        if self.options.on_disks or self.options.clocks:
            if node.machine is None:
                node.machine = Machine(self.directory / f"machine-{node.number}")
                node.environment = node.machine.environment
            faults.append(planted.OWN_MACHINE)
        return planted.program(*faults) if faults else ()

    def _new_node(self, number: int) -> BrokerNode:
        options, disk = self.options, None
        if options.on_disks:
            place = self.directory / f"disk-{number}"
            place.mkdir()
            disk = Disk(place)
            disk.mount()
        arguments = ["-n", self.namesrv]
        settings = (
            "brokerRole=SYNC_MASTER",
            f"failover={self.etcd.url}",
            f"flushDiskType={options.flush}",
            "mappedFileSizeCommitLog=8388608",  # a long campaign has several files, and all of them are compared
            *SETTINGS,
        )
        for setting in (*settings, *options.settings):
            arguments += ["--set", setting]
        if self.lab is None:
            return BrokerNode(number, self.directory, arguments, disk)
        within, host = self.lab.add(number)
        node = BrokerNode(number, self.directory, [*arguments, "--set", f"brokerIP1={host}"], disk, host)
        node.within = within
        return node

    async def speed_up(self) -> None:
        """Give brokers on a slow link a good one: they have to have everything in the end."""
        for node in self.nodes:
            if node.is_slow:
                node.is_slow = False
                node.program = self._program(node) or PRODUCT
                self.strike(node, "speed up")
                await asyncio.to_thread(node.end, signal.SIGTERM)  # it may be the master, and hands over
                await asyncio.to_thread(node.start)

    async def close(self) -> None:
        """End everything."""
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for server in (*self.nodes, self.name_server):
            await asyncio.to_thread(server.kill)
        for node in self.nodes:
            if node.disk is not None:
                node.disk.unmount()
        await asyncio.to_thread(self.etcd.close)
        if self.lab is not None:
            self.lab.close()
        self.journal.close()

    # --- who is master

    def node_at(self, address: str) -> BrokerNode:
        """Return the broker with this address."""
        return next(node for node in self.nodes if node.address == address)

    @property
    def in_sync(self) -> set[str]:
        """The addresses of the in-sync set, as far as its members are there."""
        view = self.view
        if view is None or view.members is None:
            return set()
        return {view.states[store].address for store in view.members if store in view.states}

    async def master(self, within: float) -> BrokerNode:
        """Return the broker that etcd names, waiting for one that runs; raises TimeoutError."""
        async with asyncio.timeout(within):
            while True:
                leader = self.view.leader if self.view is not None else None
                if leader is not None and self.node_at(leader.address).is_running:
                    return self.node_at(leader.address)
                await asyncio.sleep(_WATCHED_EVERY / 2)

    def strike(self, node: BrokerNode, how: str) -> float:
        """Write down that something is done to a broker; return when."""
        return self.journal.write(Struck, node=node.address, how=how).at

    async def _watch(self) -> None:
        while True:
            asked = time.monotonic()
            found = await asyncio.to_thread(self._ask_etcd)
            if found is not None:
                view = read_view(self._keys, found)
                is_new = self._note_reign(view)
                self.view, self.seen = view, asked
                if is_new:
                    await asyncio.to_thread(self._look_at_election, view)
            await asyncio.sleep(_WATCHED_EVERY)

    def _note_reign(self, view: ClusterView) -> bool:
        leader = view.leader
        if leader is None or (self.reign is not None and leader.epoch <= self.reign.epoch):
            return False
        self.reign = self.journal.write(Reigned, node=leader.address, epoch=leader.epoch, since=self.seen)
        return True

    def _look_at_election(self, view: ClusterView) -> None:
        """Ask etcd who was in the set when this leader was elected: it must have been a member."""
        found = self._ask_etcd(view.epoch_revision)  # only an election writes the epoch
        if found is not None and view.leader is not None:
            self.elections += 1
            members = read_view(self._keys, found).members or []
            if view.leader.store not in members:
                self.problems.append(f"{view.leader} was elected, and the in-sync set was {members}")

    def _ask_etcd(self, revision: int = 0) -> list[KeyValue] | None:
        """Return all keys, as they are or were at a revision; None if etcd does not answer."""
        start = self._keys.prefix.encode()
        end = start[:-1] + bytes([start[-1] + 1])
        body = json.dumps({"key": _coded(start), "range_end": _coded(end), "revision": revision}).encode()
        for endpoint in self.etcd.endpoints:
            try:
                asked = urllib.request.Request(f"http://{endpoint}/v3/kv/range", data=body, method="POST")
                with _DIRECT.open(asked, timeout=1.0) as answer:
                    found = json.load(answer).get("kvs", [])
            except (OSError, ValueError):
                continue
            return [_key_value(one) for one in found]
        return None

    # --- what they say

    async def _observe(self) -> None:
        """Write down every change of the committed offsets at the master."""
        seen: dict[tuple[str, int], int] = {}
        async with await BrokerApi.connect(self.namesrv) as api:
            calls = AdminCalls(api.remoting)
            while True:
                await asyncio.sleep(_OBSERVED_EVERY)
                reign = self.reign
                if reign is None:
                    continue
                try:
                    offsets = await calls.committed_offsets(reign.node)
                except PyroMQError:
                    continue
                if self.reign is not reign or not self.node_at(reign.node).is_running:
                    continue  # an answer of another reign, read too late to be put in order
                for name, found in offsets.items():
                    topic, _, group = name.partition("@")
                    for queue_id, offset in found.items():
                        if seen.get((name, queue_id)) != offset:
                            seen[name, queue_id] = offset
                            self.journal.write(
                                Committed,
                                group=group,
                                queue=MessageQueue(topic, NAME, queue_id),
                                offset=offset,
                                epoch=reign.epoch,
                                node=reign.node,
                            )

    async def contents(self) -> list[AnyEvent]:
        """Return all that each broker has in topics and retry topics, and the dead letters."""
        found: list[AnyEvent] = []
        async with await BrokerApi.connect(self.namesrv) as api:
            for node in self.nodes:
                for topic in (*TOPICS, *(retry_topic(role.group) for role in self.options.roles)):
                    for queue, offset, value in await _read(api, node.address, topic):
                        found.append(
                            Stored(at=time.monotonic(), node=node.address, queue=queue, offset=offset, value=value)
                        )
            for role in self.options.roles:
                for _, _, value in await _read(api, self.nodes[0].address, dlq_topic(role.group)):
                    found.append(Buried(at=time.monotonic(), group=role.group, value=value))
        return found

    def unlike_logs(self) -> list[str]:
        """Return where the logs of two brokers differ, byte by byte, and keep these files beside the journals."""
        problems = []
        first, *others = self.nodes
        for other in others:
            for path in sorted(first.commit_log.glob("[0-9]*")):
                twin = other.commit_log / path.name
                if not twin.exists():
                    problems.append(f"broker {other.number} has no {path.name}")
                elif (at := _first_difference(path, twin)) is not None:
                    problems.append(f"the logs of brokers {first.number} and {other.number} differ at {path.name}+{at}")
                    for node, file in ((first, path), (other, twin)):
                        shutil.copy(file, self.directory / f"unlike-{node.number}-{file.name}")
        return problems


async def _read(api: BrokerApi, address: str, topic: str) -> list[tuple[MessageQueue, int, str]]:
    found: list[tuple[MessageQueue, int, str]] = []
    try:
        route = await api.route(topic)
    except NoRoute:
        return found
    for queue_id in range(max((data.read_queue_nums for data in route.queue_datas), default=0)):
        queue = MessageQueue(topic, NAME, queue_id)
        offset = await api.min_offset(address, topic, queue_id)
        end = await api.max_offset(address, topic, queue_id)
        while offset < end:
            answer = await api.pull(address, pull_header(topic, queue_id, offset), timeout=10)
            if answer.status is PullStatus.FOUND:
                found += [(queue, one.queue_offset, value_of(one)) for one in decode_messages(answer.body)]
            offset = max(answer.next_offset, offset + 1)
    return found


async def _create(api: BrokerApi, address: str, topic: str) -> None:
    end = time.monotonic() + READY_WITHIN
    while True:
        try:
            await api.create_topic(address, topic, QUEUES[topic])
        except PyroMQError:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.2)
        else:
            return


def _first_difference(one: Path, other: Path) -> int | None:
    size, at = 1 << 20, 0
    with one.open("rb") as mine, other.open("rb") as theirs:
        while True:
            here, there = mine.read(size), theirs.read(size)
            if here != there:
                length = min(len(here), len(there))  # one may be written further than the other, with zeros
                if here[:length] != there[:length] or any(here[length:]) or any(there[length:]):
                    return at + next((k for k in range(length) if here[k] != there[k]), length)
            if not here and not there:
                return None
            at += size


def _coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _key_value(found: dict[str, Any]) -> KeyValue:
    key, value = (base64.b64decode(found.get(name, "")) for name in ("key", "value"))
    return KeyValue(key.decode(), value, int(found["mod_revision"]))
