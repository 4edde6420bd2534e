"""ChangeNotices: tells the members of a group that it has changed.

Everybody who leaves or joins a group of thousands concerns thousands. Notices leave a few at a time, between other
work, and a group that changes again before its members were told is told once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from pyromq.errors import ConnectionLost
from pyromq.protocol.codes import LanguageCode, RequestCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.clients import NotifyConsumerIdsChangedRequestHeader
from pyromq.remoting.connection import Connection

AT_A_TIME = 200  # notices written at once, in about 2 ms


class ChangeNotices:
    """Sends notices to the members of changed groups; `members` returns those that a group has now."""

    def __init__(self, members: Callable[[str], Iterable[Connection]]) -> None:
        self._members = members
        self._changed: OrderedDict[str, None] = OrderedDict()
        self._group = ""
        self._left: Iterator[Connection] = iter(())
        self._scheduled = False

    def tell(self, group: str) -> None:
        """Have the members of a group told soon."""
        self._changed[group] = None
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._tell_some)

    def _tell_some(self) -> None:
        self._scheduled = False
        for _ in range(AT_A_TIME):
            member = next(self._left, None)
            if member is not None:
                self._notify(member)
            elif self._changed:
                self._group, _ = self._changed.popitem(last=False)
                self._left = iter(tuple(self._members(self._group)))
            else:
                return
        self._schedule()

    def _notify(self, member: Connection) -> None:
        header = NotifyConsumerIdsChangedRequestHeader(consumer_group=self._group)
        notice = request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, language=LanguageCode.JAVA)
        with suppress(ConnectionLost):  # it leaves the group by itself
            member.oneway(notice)
