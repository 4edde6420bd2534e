"""Callers: who sends over a connection, where there is access control.

Access control (access/access_control.py) looks at the first request of a connection itself, and says then what is known
of its account. With that the lane lets in signed sends like those before: the same account, a topic that it may send
to, the right signature, a number that was not there before. Whatever differs is left to the ordinary path, which
refuses it, counts it and logs it, or lets it in after a closer look.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from pyromq.protocol.acl import LONGEST_CONNECTION, MOST_SKEW_MS
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.headers.signed_send import SignedSendHeader

MAX_SIGNED_BODY: Final = 64 * 1024
"""Bytes of a body whose signature may be computed twice: in the lane, and again where it was not right."""

_CODE: Final = str(int(RequestCode.SEND_MESSAGE_V2))
_NO_NUMBER: Final = ("", 0)


class Caller(NamedTuple):
    """An account whose requests have come in over a connection; it owns none of its tables."""

    access_key: str
    secret: bytes
    """The block of bytes that HMAC begins with."""
    topics: set[str]
    """Those that it has sent to and may send to."""
    numbers: OrderedDict[str, int]
    """The last number of each connection (access/replays.py)."""
    is_signature: Callable[[str, str, bytes], bool]
    """Tells whether a text is the signature of a text and a body."""

    def __repr__(self) -> str:
        return f"Caller({self.access_key!r})"


def is_signed(caller: Caller, sent: SignedSendHeader, body: bytes) -> bool:
    """Return True if a send is the caller's, for a topic that it may send to, and was not changed."""
    return (
        sent.access_key == caller.access_key
        and sent.topic in caller.topics
        and len(body) <= MAX_SIGNED_BODY
        and caller.is_signature(sent.signature, sent.signed_text(), body)
    )


def next_number(caller: Caller, sent: SignedSendHeader, now_ms: int) -> tuple[str, int] | None:
    """Return the connection and number of a send, an empty one if it has none; None if it needs a closer look."""
    nonce, signed_at = sent.nonce, sent.signed_at
    if nonce is None:
        return _NO_NUMBER if sent.signed_code is None and signed_at is None else None
    connection, _, text = nonce.partition(".")
    if sent.signed_code != _CODE or signed_at is None or len(connection) > LONGEST_CONNECTION:
        return None
    if not (_is_plain(signed_at) and _is_plain(text)) or abs(now_ms - int(signed_at)) > MOST_SKEW_MS:
        return None
    number, last = int(text), caller.numbers.get(connection)
    return None if last is None or number <= last else (connection, number)


def _is_plain(digits: str) -> bool:
    return digits.isascii() and digits.isdigit() and len(digits) <= 18
