"""ClientInstance: the connections, routes and heartbeats that producers and consumers share."""

from __future__ import annotations

import asyncio
import logging
import math

from pyromq.client.background import Periodic, run_all
from pyromq.client.config import ClientConfig
from pyromq.client.lifecycle import ForkGuard
from pyromq.client.net.address import new_client_id
from pyromq.client.net.broker_requests import ClientRequests, GroupMember, TransactionCheck
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.diagnosis import diagnose, explain
from pyromq.client.net.heartbeats import Heartbeats
from pyromq.client.net.name_servers import DISCOVERY_INTERVAL, NameServers
from pyromq.client.net.routes import Routes
from pyromq.client.reply.requester import PendingReplies
from pyromq.clock import Clock, TimerHandle, wait_for
from pyromq.errors import ClientError, PyroMQError
from pyromq.protocol.bodies import HeartbeatData, ProducerData
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.connection import Connection
from pyromq.remoting.tls.client_tls import chosen_tls

logger = logging.getLogger(__name__)

_DIAGNOSIS_TIMEOUT = 2.0
_REFRESH_PAUSE = 1.0


class ClientInstance:
    """One client as brokers see it: an id, a connection to each broker, and groups."""

    def __init__(self, config: ClientConfig, clock: Clock) -> None:
        self.client_id = new_client_id(config.instance_name)
        self.clock = clock
        self.guard = ForkGuard()
        self.users = 0
        """How many handles to it are open."""
        self.replies = PendingReplies(self.client_id, clock)
        self.checks: dict[str, TransactionCheck] = {}
        """What answers the transaction checks of each producer group."""
        self._producers: set[str] = set()
        self._consumers: dict[str, GroupMember] = {}
        requests = ClientRequests(self._consumers, self.replies, self.checks, clock)
        self._remoting = RemotingClient(
            clock,
            handlers=requests.handlers(),
            on_disconnect=self._disconnected,
            credentials=config.credentials,
            tls=chosen_tls(config.tls),
        )
        self.name_servers = NameServers.of(self._remoting, config.namesrv)
        self.api = BrokerApi(self._remoting, self.name_servers)
        self.routes = Routes(self.api, self.explain, config.topic_queues)
        interval = config.heartbeat_interval
        self.heartbeats = Heartbeats(self.api, self.routes, self._heartbeat_data, clock, interval)
        self._diagnoses: dict[str, asyncio.Future[str]] = {}
        self._started = False
        self._refreshed_at = -math.inf
        self._next_refresh: TimerHandle | None = None
        self._refreshing = Periodic("refreshing routes", clock, config.route_interval, self._refresh_routes)
        self._discovering = Periodic("finding name servers", clock, DISCOVERY_INTERVAL, self.name_servers.discover)
        self._beating = Periodic("heartbeat", clock, interval, self.heartbeats.beat_due)
        self.routes.on_change.append(lambda topic: self._beating.wake())  # there may be a new broker
        self.routes.on_moved.append(self.refresh_soon)  # other topics are on that broker too
        self.api.unreachable.on_failure = self.refresh_soon

    def start(self) -> None:
        """Start the background work, unless another user has done so."""
        if not self._started:
            self._started = True
            self._refreshing.start()
            self._beating.start()
            if self.name_servers.url is not None:
                self._discovering.start()

    async def close(self) -> None:
        """Stop all background work and close all connections."""
        self._stop_waiting()
        await run_all(self._discovering.stop, self._refreshing.stop, self._beating.stop, self._remoting.close)

    # --- groups: to be joined and left through an InstanceHandle -----------------------------------------------------

    def add_producer(self, group: str) -> None:
        """Add a producer group to the heartbeats."""
        if group in self._producers:
            raise ClientError(f"this client already has a producer in the group {group!r}")
        self._producers.add(group)
        self.heartbeats.forget_all()

    async def remove_producer(self, group: str) -> None:
        """Withdraw a producer group; brokers that cannot be reached forget it by themselves."""
        self._producers.discard(group)
        await self._unregister(producer_group=group)

    def add_consumer(self, group: str, member: GroupMember) -> None:
        """Add a consumer group to the heartbeats."""
        if group in self._consumers:
            raise ClientError(f"this client already has a consumer in the group {group!r}")
        self._consumers[group] = member
        self.heartbeats.forget_all()

    async def remove_consumer(self, group: str) -> None:
        """Withdraw a consumer group; brokers tell its other members at once."""
        self._consumers.pop(group, None)
        await self._unregister(consumer_group=group)

    async def announce(self) -> None:
        """Send a heartbeat to all known brokers and wait for it; raises AccessDenied if none of them accepts it."""
        await self.heartbeats.beat()
        self.heartbeats.check_access()

    async def _unregister(self, producer_group: str | None = None, consumer_group: str | None = None) -> None:
        told = [
            self.api.unregister(address, self.client_id, producer_group=producer_group, consumer_group=consumer_group)
            for address in self.heartbeats.brokers
        ]
        for outcome in await asyncio.gather(*told, return_exceptions=True):
            if isinstance(outcome, PyroMQError):
                logger.debug("could not unregister: %s", outcome)
            elif isinstance(outcome, BaseException):
                raise outcome

    def _heartbeat_data(self) -> HeartbeatData:
        return HeartbeatData(
            client_id=self.client_id,
            producer_data_set=[ProducerData(group_name=group) for group in sorted(self._producers)],
            consumer_data_set=[member.consumer_data() for member in self._consumers.values()],
        )

    # --- background work and diagnosis -------------------------------------------------------------------------------

    def refresh_soon(self) -> None:
        """Refresh all routes in the background, at most once a second: a broker failed and may have moved."""
        if not self._started or self._remoting.closed:
            return
        wait = self._refreshed_at + _REFRESH_PAUSE - self.clock.monotonic()
        if wait <= 0:
            self._refreshing.wake()
        elif self._next_refresh is None:
            self._next_refresh = self.clock.call_later(wait, self._refreshing.wake)

    async def _refresh_routes(self) -> bool:
        self._stop_waiting()
        self._refreshed_at = self.clock.monotonic()
        await self.routes.refresh_all()
        return True

    def _stop_waiting(self) -> None:
        if self._next_refresh is not None:
            self._next_refresh.cancel()
            self._next_refresh = None

    async def explain(self, topic: str) -> str:
        """Return a diagnosis of the way to a topic, within 2 s; simultaneous calls for one topic share it."""
        running = self._diagnoses.get(topic)
        if running is None:
            running = self._diagnoses[topic] = asyncio.ensure_future(self._diagnose(topic))
            running.add_done_callback(lambda done: self._diagnoses.pop(topic, None))
        return await asyncio.shield(running)

    async def _diagnose(self, topic: str) -> str:
        try:
            return explain(await wait_for(self.clock, diagnose(self.api, topic), _DIAGNOSIS_TIMEOUT))
        except TimeoutError:
            return f"the diagnosis took longer than {_DIAGNOSIS_TIMEOUT:g} s"
        except PyroMQError as error:  # closed in the meantime
            return f"the diagnosis failed: {error}"

    def _disconnected(self, connection: Connection) -> None:
        # A broker forgets its clients with their connections: send a heartbeat as soon as it is back.
        self.heartbeats.forget(connection.address)
        if self._producers or self._consumers:
            self._beating.wake()
        for member in self._consumers.values():
            member.connection_lost(connection.address)
