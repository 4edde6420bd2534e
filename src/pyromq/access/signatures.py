"""Verifier: compares signatures of one account's requests, in a third of the time of the general way.

The hash of the secret is computed once for each account, and the order of the ext fields once for each set of names,
of which clients send few. Both matter: every request of a guarded server is verified.
"""

from __future__ import annotations

import hashlib
import hmac
from binascii import b2a_base64
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Final

from pyromq.protocol.acl import SIGNATURE, UNIQUE_KEY_QUERY, sign, signed_names
from pyromq.protocol.codes import RequestCode

_BLOCK: Final = 64  # bytes of SHA-1
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))
MOST_ORDERS: Final = 1_000
"""Sets of names that are remembered, all of good requests: nobody makes them up to slow others down."""

_orders: dict[tuple[str, ...], Any] = {}


class Verifier:
    """Knows one secret."""

    __slots__ = ("_inner", "_outer", "_secret")

    def __init__(self, secret: str) -> None:
        key = secret.encode()
        if len(key) > _BLOCK:
            key = hashlib.sha1(key).digest()  # noqa: S324 (RocketMQ's choice)
        key = key.ljust(_BLOCK, b"\0")
        self._secret = secret
        self._inner = hashlib.sha1(key.translate(_INNER))  # noqa: S324
        self._outer = hashlib.sha1(key.translate(_OUTER))  # noqa: S324

    def is_signed(self, fields: Mapping[str, str], code: int, body: bytes) -> bool:
        """Return True if a request has the signature of this secret."""
        given = fields.get(SIGNATURE)
        if given is None:
            return False
        try:
            names = tuple(fields)
            values = _orders.get(names)
            text = ("".join(values(fields)) if values else _plainly(fields)).encode()
            inner, outer = self._inner.copy(), self._outer.copy()
            inner.update(text)
            inner.update(body)
            outer.update(inner.digest())
            if hmac.compare_digest(given.encode(), b2a_base64(outer.digest(), newline=False)):
                if values is None:
                    _remember(names, fields)
                return True
            if code != RequestCode.QUERY_MESSAGE or UNIQUE_KEY_QUERY not in fields:
                return False
            newer = sign(fields, body, self._secret, is_newer=True)  # as Java's clients since 4.9.4 sign a query
            return hmac.compare_digest(given.encode(), newer.encode())
        except UnicodeEncodeError:
            return False


def _plainly(fields: Mapping[str, str]) -> str:
    return "".join([fields[name] for name in signed_names(fields)])


def _remember(names: tuple[str, ...], fields: Mapping[str, str]) -> None:
    in_order = signed_names(fields)
    if len(in_order) > 1 and len(_orders) < MOST_ORDERS:
        _orders[names] = itemgetter(*in_order)
