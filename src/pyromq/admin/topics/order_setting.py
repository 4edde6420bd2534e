"""The order setting of a topic, as name servers keep it for producers.

broker-a:8;broker-b:8        namespace ORDER_TOPIC_CONFIG, the topic as key: how many queues each broker has for it
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyromq.client.net.calls.namesrv_calls import NamesrvCalls

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


class OrderSetting:
    """Reads and changes the order setting of a topic."""

    def __init__(self, calls: NamesrvCalls, topic: str) -> None:
        self._calls = calls
        self._topic = topic

    async def get(self) -> str | None:
        """Return the setting, None if the topic has none."""
        return await self._calls.get_kv(ORDER_NAMESPACE, self._topic)

    async def change(self, queues: Mapping[str, int | None]) -> str | None:
        """Set the number of queues of some brokers, None to leave a broker out; return the setting, None if it is gone.

        The parts of other brokers stay. Without any part, the setting is removed.
        """
        before = await self.get()
        after = changed_order(before, queues)
        if after:
            await self._calls.put_kv(ORDER_NAMESPACE, self._topic, after)
        elif before is not None:
            await self._calls.delete_kv(ORDER_NAMESPACE, self._topic)
        return after or None

    async def remove(self) -> None:
        """Remove the setting from all name servers."""
        await self._calls.delete_kv(ORDER_NAMESPACE, self._topic)


def changed_order(before: str | None, queues: Mapping[str, int | None]) -> str:
    """Return an order setting in which some brokers have other numbers of queues, None to leave one out."""
    parts = {name: number for name, _, number in (part.partition(":") for part in (before or "").split(";")) if name}
    parts |= {name: "" if number is None else str(number) for name, number in queues.items()}
    return ";".join(f"{name}:{number}" for name, number in sorted(parts.items()) if number)
