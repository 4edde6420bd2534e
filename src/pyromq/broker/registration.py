"""Announces this broker to every name server: at the start, every 30 s, when topics change, and when it goes.

A new master registers every 5 s until a name server names it as the only one. A name server of ours refuses a master
whose epoch is older than the newest one that it has heard of.

When topics change, only those are registered, as RocketMQ's brokers do: a name server adds what it hears and removes
nothing. It must have heard of all topics on the same connection before. A name server that was restarted would else
take the few for all: RocketMQ's looks at the topics of a registration only if their version is new to it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection
from typing import NamedTuple

from msgspec.structs import replace

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.tables.topic_table import READ_WRITE, TopicTable
from pyromq.clock import Clock, wait_for
from pyromq.errors import BrokerError, PyroMQError
from pyromq.protocol.bodies import (
    DataVersion,
    KVTable,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicRouteData,
    decode,
    encode_register_body,
)
from pyromq.protocol.bodies.json_steps import encoding
from pyromq.protocol.codes import MASTER_ID, LanguageCode, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers.routes import (
    GetRouteInfoByTopicRequestHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnregisterBrokerRequestHeader,
)
from pyromq.protocol.messages.record import body_crc
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.connection import Connection

logger = logging.getLogger(__name__)

SHORTEST_PERIOD, LONGEST_PERIOD = 10.0, 60.0
RETRY_PERIOD = 5.0  # after a failure; RocketMQ waits for the next period
UNREGISTER_TIMEOUT = 3.0
_FEW_TOPICS = 200  # that are printed at once, in about a millisecond


class KnownMaster(NamedTuple):
    """Where a master is: for requests, and for slaves; either is empty if it is not known."""

    broker: str
    ha: str


class _KnownServer:
    """What one name server was told: on which connection it heard of all topics, and which of them changed since."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.changed = asyncio.Event()
        self.connection: Connection | None = None
        self._unheard: dict[str, None] | None = {}

    def note(self, topics: Collection[str] | None) -> None:
        """Note topics that it has not heard of; None if it may be all."""
        if topics is None:
            self._unheard = None
        elif self._unheard is not None:
            self._unheard.update(dict.fromkeys(topics))
        self.changed.set()

    def take(self, connection: Connection) -> Collection[str] | None:
        """Return the topics to register now, None for all: one that was restarted, or missed one, needs them all."""
        topics, self._unheard = self._unheard, {}
        self.changed.clear()
        return topics if connection is self.connection else None


class Registration:
    """Keeps the name servers informed, each by a task of its own, so that a dead one delays no other."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        remoting: RemotingClient,
        topics: TopicTable,
        *,
        address: str,
        ha_address: str,
    ) -> None:
        self.registered: set[str] = set()
        self._broker_id = MASTER_ID
        self._epoch = 0
        self.history = ""
        """Names the log of which this broker is master: what copies of it have in common."""
        self._claiming: set[str] = set()
        self.slave_id = config.slave_id
        """This broker's id while it is a slave: its own, or the one that its successor left to it."""
        self.master = KnownMaster("", "")
        """The master of this broker's name, as the name servers know it; empty if there is none, or this is it."""
        self.rivals: dict[str, str] = {}
        """Other brokers that register under the same name and id: their addresses, by who said so."""
        self.refusals: dict[str, str] = {}
        """Why name servers refuse this broker, by their addresses."""
        self._failing: set[str] = set()
        self._config = config
        self._clock = clock
        self._remoting = remoting
        self._topics = topics
        self._address = address
        self._ha_address = ha_address
        self._servers = {server: _KnownServer() for server in config.namesrv}
        self._tasks: list[asyncio.Task[None]] = []
        self._body: tuple[DataVersion, bytes] | None = None
        self._printing = asyncio.Lock()

    @property
    def broker_id(self) -> int:
        """Under which id this broker is announced, from the next registration on."""
        return self._broker_id

    @broker_id.setter
    def broker_id(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self.announce(None)  # a name server takes topics from masters only

    @property
    def epoch(self) -> int:
        """In which epoch this broker is master; 0 while it is none."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._epoch = epoch
        self._claiming = set(self._servers) if epoch else set()

    @property
    def _announced_epoch(self) -> int | None:
        return self._epoch or None if self._broker_id == MASTER_ID else None

    @property
    def is_claiming(self) -> bool:
        """Whether a name server may still name another master."""
        return bool(self._claiming)

    def configure(self, config: BrokerConfig) -> None:
        """Take over changed settings, for the next registration."""
        self._config = config
        self._body = None
        self.announce(None)

    async def start(self) -> None:
        """Register everywhere, then keep doing so; a name server that does not answer is tried again."""
        self._unsubscribe = self._topics.changed.subscribe(self.announce)
        await self.register_everywhere()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep_registered(server)) for server in self._config.namesrv]

    async def stop(self) -> None:
        """Stop announcing, and tell the name servers that this broker goes."""
        self._unsubscribe()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(self._unregister(server) for server in self.registered))

    def announce(self, topics: Collection[str] | None = None) -> None:
        """Register again soon: these topics changed, or perhaps all."""
        for server in self._servers.values():
            server.note(topics)

    def disconnected(self, connection: Connection) -> None:
        """Register again soon if this was a name server's connection: it may come back with empty tables."""
        if connection.address in self.registered:
            self.registered.discard(connection.address)
            self._clock.call_later(RETRY_PERIOD, self._servers[connection.address].changed.set)

    async def register_everywhere(self) -> None:
        """Register at all name servers now."""
        await asyncio.gather(*map(self._register, self._servers))

    async def _keep_registered(self, server: str) -> None:
        changed = self._servers[server].changed
        period = min(max(self._config.registration_period, SHORTEST_PERIOD), LONGEST_PERIOD)
        while True:
            is_due = False
            try:
                is_settled = server in self.registered and server not in self._claiming
                pause = period if is_settled else RETRY_PERIOD
                await wait_for(self._clock, changed.wait(), pause)
            except TimeoutError:
                is_due = True
            try:
                if is_due and server in self._claiming:
                    await self._look_who_is_master(server)
                await self._register(server, whole=is_due)
            except Exception:  # a broker that stops registering vanishes within two minutes
                logger.exception("registration failed name server=%s", server)

    async def _look_who_is_master(self, server: str) -> None:
        """Stop claiming once a name server, some seconds after a registration, names this broker as the master."""
        header, epoch = GetRouteInfoByTopicRequestHeader(topic=self._config.name), self._epoch
        command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, language=LanguageCode.JAVA)
        try:
            answer = await self._remoting.request(server, command, self._config.registration_timeout)
        except PyroMQError:
            return  # the registration that follows says why
        if answer.code != ResponseCode.SUCCESS or epoch != self._epoch:
            return
        brokers = decode(TopicRouteData, answer.body).broker_datas
        ids = [who for one in brokers if one.broker_name == self._config.name for who in one.broker_addrs.items()]
        if [who for who in ids if who[0] == MASTER_ID or who[1] == self._address] == [(MASTER_ID, self._address)]:
            self._claiming.discard(server)
        self._note_rival(server, next((at for who, at in ids if who == MASTER_ID and at != self._address), None))

    async def _register(self, server: str, *, whole: bool = False) -> None:
        """Register at a name server: the topics that it has not heard of, or all of them."""
        known = self._servers[server]
        async with known.turn:
            try:
                connection = await self._remoting.connection(server)
                topics = known.take(connection)
                command = await self._registration(None if whole else topics)
                answer = await connection.request(command, self._config.registration_timeout)
                if answer.code != ResponseCode.SUCCESS:
                    raise BrokerError(answer.remark or "", answer.code)
                self._apply_order(answer)
                self._note_master(server, answer)
            except PyroMQError as error:
                known.connection = None
                self._note_failure(server, error)
            else:
                known.connection = connection
                self._note_success(server)

    async def _unregister(self, server: str) -> None:
        header = UnregisterBrokerRequestHeader(
            broker_name=self._config.name,
            broker_addr=self._address,
            cluster_name=self._config.cluster,
            broker_id=self.broker_id,
            pyromq_epoch=self._announced_epoch,
        )
        try:
            command = request(RequestCode.UNREGISTER_BROKER, header, language=LanguageCode.JAVA)
            await self._remoting.request(server, command, UNREGISTER_TIMEOUT)
        except PyroMQError as error:
            logger.warning("cannot unregister at name server %s: %s", server, error)

    async def _registration(self, topics: Collection[str] | None) -> RemotingCommand:
        body = await self._encoded_topics(topics)
        header = RegisterBrokerRequestHeader(
            broker_name=self._config.name,
            broker_addr=self._address,
            cluster_name=self._config.cluster,
            broker_id=self.broker_id,
            ha_server_addr=self._ha_address,
            compressed=self._config.compressed_registration,
            body_crc32=body_crc(body),
            pyromq_epoch=self._announced_epoch,
            pyromq_history=self.history or None if self._announced_epoch else None,
        )
        return request(RequestCode.REGISTER_BROKER, header, body, language=LanguageCode.JAVA)

    async def _encoded_topics(self, topics: Collection[str] | None) -> bytes:
        """Return the body of a registration; that of all topics is the same until they change."""
        if topics is not None and len(topics) <= _FEW_TOPICS:
            return _print(self._topics.snapshot(topics), self._config)
        async with self._printing:
            if self._body is None or self._body[0] != self._topics.version:
                table, config = self._topics.snapshot(), self._config
                few = len(table.topic_config_table) <= _FEW_TOPICS
                body = _print(table, config) if few else await asyncio.to_thread(_print, table, config)
                if self._config is not config:
                    return body  # it says what the broker allowed a moment ago; another registration is due
                self._body = (table.data_version, body)
            return self._body[1]

    def _apply_order(self, answer: RemotingCommand) -> None:
        """Take over which topics are ordered; without a body the name server has nothing to say about it."""
        if answer.body:
            self._topics.set_ordered(decode(KVTable, answer.body).table.keys())

    def _note_master(self, server: str, answer: RemotingCommand) -> None:
        header = answer.header(RegisterBrokerResponseHeader)
        self.master = KnownMaster(header.master_addr or "", header.ha_server_addr or "")
        if header.pyromq_rival or server not in self._claiming:  # else the last look at the route says more
            self._note_rival(server, header.pyromq_rival)

    def _note_rival(self, server: str, rival: str | None) -> None:
        if rival:
            self.rivals[server] = rival
        else:
            self.rivals.pop(server, None)

    def _note_failure(self, server: str, error: PyroMQError) -> None:
        self.registered.discard(server)
        if isinstance(error, BrokerError):
            self.refusals[server] = error.remark
        else:
            self.refusals.pop(server, None)
        if server not in self._failing:  # one line, not one for every attempt
            self._failing.add(server)
            reason = "it is no name server; is it a broker?" if _is_unknown_request(error) else error
            logger.warning("cannot register at name server %s: %s", server, reason)

    def _note_success(self, server: str) -> None:
        self._failing.discard(server)
        self.refusals.pop(server, None)
        if server not in self.registered:
            self.registered.add(server)
            logger.info("registered name server=%s broker=%s address=%s", server, self._config.name, self._address)


def _print(table: TopicConfigSerializeWrapper, config: BrokerConfig) -> bytes:
    """Return the body of a registration of these topics; for many of them in a thread."""
    if config.open_for & READ_WRITE != READ_WRITE:
        table = _with_permission(table, config.open_for)
    body = RegisterBrokerBody(topic_config_serialize_wrapper=table)
    if config.compressed_registration:
        return encode_register_body(body, compressed=True)
    steps = encoding(body)
    try:
        while True:
            next(steps)
            os.sched_yield()  # the loop's thread may wait for the interpreter
    except StopIteration as end:
        encoded: bytes = end.value
        return encoded


def _with_permission(table: TopicConfigSerializeWrapper, permission: int) -> TopicConfigSerializeWrapper:
    """Show every topic with what a broker that is not open for all allows."""

    def limited(config: TopicConfig) -> TopicConfig:
        return TopicConfig(
            topic_name=config.topic_name,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=permission,
        )

    topics = {name: limited(config) for name, config in table.topic_config_table.items()}
    return replace(table, topic_config_table=topics)


def _is_unknown_request(error: PyroMQError) -> bool:
    return isinstance(error, BrokerError) and error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
