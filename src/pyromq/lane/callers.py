"""Callers: who sends and pulls over a connection, where there is access control.

Access control (access/access_control.py) looks at the first request of a connection itself, and says then what is known
of its account. With that the lane lets in signed requests like those before: the same account, a topic that it may send
to or a pull that it may make, the right signature, a number that was not there before. Whatever differs is left to the
ordinary path, which refuses it, counts it and logs it, or lets it in after a closer look.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pyromq.protocol.acl import (
    ACCESS_KEY,
    CODE,
    LONGEST_CONNECTION,
    MOST_SKEW_MS,
    NONCE,
    SIGNATURE,
    TIME,
    signed_names,
)
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.headers.signed_send import SignedSendHeader

MAX_SIGNED_BODY: Final = 64 * 1024
"""Bytes of a body whose signature may be computed twice: in the lane, and again where it was not right."""

_SEND: Final = str(int(RequestCode.SEND_MESSAGE_V2))
_PULL: Final = str(int(RequestCode.PULL_MESSAGE))
_OWN: Final = ("commitOffset", NONCE, TIME, "queueOffset")
"""What each pull of a shape signs of its own, in the order of names."""
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


def send_number(caller: Caller, sent: SignedSendHeader, now_ms: int) -> tuple[str, int] | None:
    """Return the connection and number of a send, an empty one if it has none; None if it needs a closer look."""
    nonce, signed_at = sent.nonce, sent.signed_at
    if nonce is None:
        return _NO_NUMBER if sent.signed_code is None and signed_at is None else None
    return None if sent.signed_code != _SEND or signed_at is None else next_number(caller, nonce, signed_at, now_ms)


def next_number(caller: Caller, nonce: str, signed_at: str, now_ms: int) -> tuple[str, int] | None:
    """Return the connection and number of a request; None if it needs a closer look."""
    connection, _, text = nonce.partition(".")
    if len(connection) > LONGEST_CONNECTION or not (_is_plain(signed_at) and _is_plain(text)):
        return None
    number, last = int(text), caller.numbers.get(connection)
    if abs(now_ms - int(signed_at)) > MOST_SKEW_MS or last is None or number <= last:
        return None
    return connection, number


def note_number(caller: Caller, connection: str, number: int) -> None:
    """Remember the number of a request that was taken."""
    caller.numbers[connection] = number
    caller.numbers.move_to_end(connection)


def _is_plain(digits: str) -> bool:
    return digits.isascii() and digits.isdigit() and len(digits) <= 18


class SignedPull(NamedTuple):
    """Whose pulls of a shape are, and what they sign: texts, with the values between them that are a pull's own."""

    caller: Caller
    texts: tuple[bytes, ...]
    """Before, between and behind `_OWN`."""
    is_numbered: bool
    """Whether they have what keeps a request from being sent twice."""


def signed_pull(caller: Caller, fields: Mapping[str, str]) -> SignedPull | None:
    """Return what pulls sign that are like one with these ext fields; None if they are not the caller's, or unusual."""
    numbering = [fields.get(name) for name in (CODE, NONCE, TIME)]
    is_numbered = any(value is not None for value in numbering)
    if fields.get(ACCESS_KEY) != caller.access_key or SIGNATURE not in fields:
        return None
    if is_numbered and (None in numbering or numbering[0] != _PULL):
        return None
    texts, place = [""] * (len(_OWN) + 1), 0
    for name in signed_names(fields):
        if name in _OWN:
            place = _OWN.index(name) + 1
        else:
            texts[place] += fields[name]
    return SignedPull(caller, tuple(text.encode() for text in texts), is_numbered)
