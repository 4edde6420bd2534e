"""Replays: refuses a signed request that was sent before, where its client says when and for what it signed it.

RocketMQ's signature covers neither the code of a request nor a time. Our clients add three signed ext fields:

    pyromqCode    the request code
    pyromqTime    when it was signed, ms since the epoch
    pyromqNonce   <id of the connection>.<number>, where numbers only grow

Requests of one connection arrive in their order, so one number for each connection is all that has to be remembered,
and only for as long as a time is accepted. Requests without the fields, such as Java's, are not checked.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from pyromq.clock import Clock
from pyromq.errors import UnknownCaller
from pyromq.protocol.acl import CODE, LONGEST_CONNECTION, MOST_SKEW_MS, NONCE, TIME

MOST_CONNECTIONS: Final = 100_000
"""Connections whose last number is remembered; the one that was silent for longest is forgotten first."""


class Replays:
    """Remembers the last number of each connection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.last: OrderedDict[str, int] = OrderedDict()
        """The last number of each connection, in the order in which they were heard of; the lane keeps it too."""

    def check(self, fields: Mapping[str, str], code: int) -> None:
        """Raise UnknownCaller if a request with a right signature is not what its client sent just now."""
        self.check_values(code, fields.get(CODE, ""), fields.get(TIME, ""), fields[NONCE])

    def check_values(self, code: int, signed_code: str | None, signed_at: str | None, nonce: str) -> None:
        """Do the same with the three fields."""
        if signed_code != str(code):
            raise UnknownCaller("the request was signed for another code")
        try:
            behind = self._clock.now_ms() - int(signed_at or "")
            connection, _, text = nonce.partition(".")
            number = int(text)
        except ValueError:
            raise UnknownCaller("pyromqTime or pyromqNonce is not readable") from None
        if abs(behind) > MOST_SKEW_MS:
            raise UnknownCaller(f"signed {behind / 1000:.0f} s ago, by the clocks of both sides; 300 s are allowed")
        if len(connection) > LONGEST_CONNECTION or number <= self.last.get(connection, 0):
            raise UnknownCaller("the request was sent before")
        self.last[connection] = number
        self.last.move_to_end(connection)
        if len(self.last) > MOST_CONNECTIONS:
            self.last.popitem(last=False)
