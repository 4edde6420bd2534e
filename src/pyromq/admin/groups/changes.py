"""Changes to groups: set their settings, copy their offsets, delete them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from difflib import get_close_matches

from msgspec.structs import replace

from pyromq.admin.masters import Masters
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.clock import Clock
from pyromq.errors import ClientError, GroupNotFound
from pyromq.protocol.bodies import SubscriptionGroupConfig
from pyromq.protocol.names import BUILT_IN_GROUPS, check_group, is_system_group

logger = logging.getLogger(__name__)

SETTINGS = tuple(name for name in SubscriptionGroupConfig.__struct_fields__ if name != "group_name")


class GroupChanges:
    """Changes groups on all brokers; nothing is changed unless all of them answer."""

    def __init__(self, api: BrokerApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._calls = AdminCalls(api.remoting)

    async def set(
        self, group: str, changes: Mapping[str, bool | int], *, broker: str | None = None
    ) -> dict[str, SubscriptionGroupConfig]:
        """Change a group's settings, on all brokers or one; create the group if it does not exist.

        The names are those of `description.settings`: `consume_enable`, `retry_max_times` … Return the new settings,
        by broker.
        """
        changed = await self.plan_set(group, changes, broker=broker)
        masters = await Masters.find(self._api)
        for name, settings in changed.items():
            await self._calls.update_group(masters.addresses[name], settings)
            logger.info("group set group=%s broker=%s %s", group, name, dict(changes))
        return changed

    async def plan_set(
        self, group: str, changes: Mapping[str, bool | int], *, broker: str | None = None
    ) -> dict[str, SubscriptionGroupConfig]:
        """Return the settings that `set` would make, by broker, and change nothing."""
        check_group(group)
        for name in changes.keys() - set(SETTINGS):
            nearest = get_close_matches(name, SETTINGS, n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            raise ClientError(f"a group has no setting {name!r}{hint}")
        tables = await (await self._masters(broker)).ask_all(self._calls.group_settings)
        new = SubscriptionGroupConfig(group_name=group)
        return {name: replace(table.get(group, new), **changes) for name, table in tables.items()}

    async def plan_delete(self, group: str) -> list[str]:
        """Return the brokers from which a group would be deleted, and change nothing.

        Raises ClientError while it has members: their next heartbeat would create it again.
        """
        if group in BUILT_IN_GROUPS or is_system_group(group):
            raise ClientError(f"{group} is one of RocketMQ's own groups and cannot be deleted")
        await self._check_offline(group, "deleted")
        return sorted(await self._topics_of(group))

    async def delete(self, group: str) -> list[str]:
        """Delete a group and its offsets on all brokers; return those that knew it. Its dead letters stay."""
        known = await self.plan_delete(group)
        masters = await Masters.find(self._api)
        for name in known:
            await self._calls.delete_group(masters.addresses[name], group)
            logger.info("group deleted group=%s broker=%s", group, name)
        return known

    async def plan_clone(self, source: str, target: str, topic: str | None = None) -> dict[str, list[str]]:
        """Return the topics whose offsets would be copied, by broker, and change nothing."""
        check_group(target)
        await self._check_offline(target, "given other offsets")
        known = await self._topics_of(source)
        chosen = {name: [each for each in topics if topic in (None, each)] for name, topics in known.items()}
        if not any(chosen.values()):
            raise ClientError(f"the group {source!r} has no offsets of {topic or 'any topic'}")
        return {name: topics for name, topics in chosen.items() if topics}

    async def clone(self, source: str, target: str, topic: str | None = None) -> dict[str, list[str]]:
        """Copy a group's offsets to another, of all topics or one; they replace what the target had.

        Raises ClientError while the target has members: they would continue from their own offsets.
        """
        chosen = await self.plan_clone(source, target, topic)
        masters = await Masters.find(self._api)
        for name, topics in chosen.items():
            for each in topics:
                await self._calls.clone_offsets(masters.addresses[name], source, target, each)
                logger.info("offsets copied from=%s to=%s topic=%s broker=%s", source, target, each, name)
        return chosen

    # --- checks -------------------------------------------------------------------------------------------------------

    async def _masters(self, broker: str | None) -> Masters:
        masters = await Masters.find(self._api)
        if broker is None:
            return masters
        if broker not in masters.addresses:
            raise ClientError(f"there is no broker {broker!r} with a master; there are {', '.join(masters.addresses)}")
        return Masters({broker: masters.addresses[broker]})

    async def _check_offline(self, group: str, what: str) -> None:
        masters = await Masters.find(self._api)
        answers = await masters.ask_all(lambda address: self._calls.group_connections(address, group))
        ids = {member.client_id for known in answers.values() if known for member in known.connection_set}
        if ids:
            raise ClientError(f"{group!r} cannot be {what}: stop its members first: {', '.join(sorted(ids))}")

    async def _topics_of(self, group: str) -> dict[str, list[str]]:
        """Return the topics for which a group has offsets, by broker that knows it; raises GroupNotFound."""
        masters = await Masters.find(self._api)
        settings = await masters.ask_all(self._calls.group_settings)
        offsets = await masters.ask_all(self._calls.topics_by_group)
        known = {
            name: sorted(topics.get(group, ()))
            for name, topics in offsets.items()
            if group in topics or group in settings[name]
        }
        if not known:
            raise GroupNotFound(f"no broker knows the group {group!r}")
        return known
