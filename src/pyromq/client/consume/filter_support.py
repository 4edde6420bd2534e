"""FilterSupport: checks once per broker that it can filter by an expression, before the first pull that needs it."""

from __future__ import annotations

from collections.abc import Iterable

from pyromq.client.consume.subscriptions import Subscription
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import Routes
from pyromq.errors import NoRoute, NotSupported, NotSupportedByServer, PyroMQError
from pyromq.protocol.bodies import HeartbeatData
from pyromq.protocol.tag_filter import FUNCTION

OLDEST_VERSION = 232  # RocketMQ 4.1: an older broker would read the expression as tags


class FilterSupport:
    """Asks brokers about subscriptions that need more than tags, and remembers which ones accepted."""

    def __init__(self, api: BrokerApi, routes: Routes, client_id: str, group: str) -> None:
        self._api = api
        self._routes = routes
        self._client_id = client_id
        self._group = group
        self._agreed: set[tuple[str, str, str]] = set()

    async def ensure(self, address: str, subscription: Subscription) -> None:
        """Raise BrokerError with the broker's reason if it refuses the expression, NotSupported if it is too old.

        Only PyroMQ's brokers have filter functions: another broker would misread the name.
        """
        key = (address, subscription.topic, subscription.expression)
        if subscription.by_tags or key in self._agreed:
            return
        if subscription.expression_type == FUNCTION and not await self._is_ours(address):
            raise NotSupported(f"broker {address} is not PyroMQ's and has no filter functions")
        try:
            version = await self._api.check_subscription(address, self._client_id, self._group, subscription.data())
        except NotSupportedByServer:
            version = 0
        if version < OLDEST_VERSION:
            raise NotSupported(f"broker {address} is too old to filter by {subscription.expression_type}")
        self._agreed.add(key)

    async def _is_ours(self, address: str) -> bool:
        try:  # a heartbeat without members: PyroMQ's brokers identify themselves in the answer
            hello = await self._api.heartbeat(address, HeartbeatData(self._client_id))
        except NotSupportedByServer:
            return False
        return hello.pyromq is not None

    async def ensure_everywhere(self, subscriptions: Iterable[Subscription]) -> None:
        """Ask every broker that has the topics, so that a wrong expression is reported at once.

        A broker that does not answer is asked again before the first pull from it.
        """
        for subscription in subscriptions:
            for address in await self._readers(subscription):
                try:
                    await self.ensure(address, subscription)
                except PyroMQError as error:
                    if not error.retriable:
                        raise

    async def _readers(self, subscription: Subscription) -> list[str]:
        if subscription.by_tags:
            return []
        try:
            route = self._routes.known(subscription.topic) or await self._routes.refresh(subscription.topic)
        except NoRoute:
            return []  # no broker has the topic yet
        readers = [self._routes.reader(data.broker_name) for data in route.queue_datas]
        return [reader.address for reader in readers if reader is not None]
