"""Page through the messages that a broker's index has for a key, from the newest to the oldest."""

from __future__ import annotations

from collections.abc import Sequence

from pyromq.admin.messages.search import TimeRange
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import BrokerError
from pyromq.protocol.messages.message import MessageExt

_AT_A_TIME = 64  # brokers with stock settings return no more


class KeySource:
    """The messages with a key on one broker.

    PyroMQ's brokers are asked for messages before the oldest one that is known. Apache's do not know that question, and
    are asked for those stored until its time. If they have more of one second than fit into an answer, the older ones
    of that second cannot be had from them: that is an error, and never a silent gap.
    """

    def __init__(self, api: BrokerApi, address: str, broker_name: str, topic: str, key: str, time: TimeRange) -> None:
        self.broker_name = broker_name
        self._api = api
        self._address = address
        self._topic = topic
        self._key = key
        self._time = time
        self._before: int | None = None
        self._by_time = False

    async def next_block(self) -> Sequence[MessageExt]:
        """Return the next older messages, the newest of them first; none at the end."""
        while True:
            page = await self._api.query_page(
                self._address,
                self._topic,
                self._key,
                most=_AT_A_TIME,
                begin_ms=self._time.since_ms,
                end_ms=self._time.until_ms,
                before=self._before,
            )
            new = [each for each in page.found if self._before is None or each.physical_offset < self._before]
            if len(new) < len(page.found) and not self._by_time:
                self._by_time = True
            elif not new and len(page.found) >= _AT_A_TIME:
                raise BrokerError(
                    f"more than {_AT_A_TIME} messages have this key at one time, it shows no more of them"
                )
            elif not new:
                return ()
            if new:
                self._before = min(message.physical_offset for message in new)
            if self._by_time:
                oldest_ms = min(message.store_timestamp_ms for message in page.found)
                self._time = self._time._replace(until_ms=min(self._time.until_ms, oldest_ms))
            known = {message.physical_offset for message in new}
            if wanted := [each for each in page.messages if each.physical_offset in known]:
                for message in wanted:
                    message.broker_name = self.broker_name
                return wanted[::-1]
