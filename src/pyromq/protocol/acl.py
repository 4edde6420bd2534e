"""Access control: every request names an account and carries a signature made with the account's secret key.

    Signature = base64(HMAC-SHA1(secret key, values of the ext fields in the order of their names, then the body))

A signature contains neither a time nor a counter, so whoever can listen can send a request again. Our clients add both
as signed ext fields, which our servers check. The values have no separators in the signature, so this is no full
protection: TLS is.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import re
import secrets
from binascii import b2a_base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from pyromq.errors import ClientError, LocalProtocolError
from pyromq.protocol.command import RemotingCommand

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 (a field's name)
SIGNATURE: Final = "Signature"

CODE: Final = "pyromqCode"
TIME: Final = "pyromqTime"
NONCE: Final = "pyromqNonce"
"""Ours: they let a PyroMQ server refuse a request that is sent again (access/replays.py). Others ignore them."""

MOST_SKEW_MS: Final = 300_000
"""How far the clocks of client and server may differ, and how old a request may be."""
LONGEST_CONNECTION: Final = 64
"""Characters of a connection's id in a nonce."""

UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"

# Java clients since 4.9.4 sign the second one too. No 4.9 broker does, so it refuses their queries by key; ours accepts
# both texts.
_NOT_SIGNED: Final = frozenset({SIGNATURE, UNIQUE_KEY_QUERY})
_NOT_SIGNED_SINCE_494: Final = frozenset({SIGNATURE})

_BLOCK: Final = 64  # bytes of SHA-1
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))

ACCESS_DENIED: Final = "access denied"
"""The start of a refusal's remark after `name_account`."""

_REFUSAL = re.compile(r"[\w.]*\bAclException: (?P<reason>.*?)(?:, [\w.$]+\([\w.]+(?::\d+)?\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Credentials:
    """An account of a cluster with access control. Its repr never shows the secrets.

    >>> Producer("shop", "127.0.0.1:9876", credentials=Credentials("shop-app", secret_key))
    """

    access_key: str
    """The account's name."""
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)
    """The token of a temporary account, which some hosted clusters issue."""

    def __post_init__(self) -> None:
        if not (self.access_key and self.secret_key):
            raise ClientError("credentials need an access key and a secret key; one of them is empty")

    def fields(self) -> dict[str, str]:
        """Return the ext fields that name the account."""
        named = {ACCESS_KEY: self.access_key}
        return named if self.security_token is None else {**named, SECURITY_TOKEN: self.security_token}


def sign(fields: Mapping[str, str], body: bytes, secret: str, *, is_newer: bool = False) -> str:
    """Return the signature of a request with these ext fields and this body; `is_newer` as clients since 4.9.4 do."""
    text = "".join([fields[name] for name in signed_names(fields, is_newer=is_newer)])
    return signature(text.encode() + body, secret.encode()).decode()


def signed_names(fields: Mapping[str, str], *, is_newer: bool = False) -> list[str]:
    """Return the names of the fields that are signed, in their order."""
    left_out = _NOT_SIGNED_SINCE_494 if is_newer else _NOT_SIGNED
    in_order = sorted(fields, key=None if "".join(fields).isascii() else _as_java_sorts)
    return [name for name in in_order if name not in left_out]


def signature(signed: bytes, secret: bytes) -> bytes:
    """Return the signature of bytes."""
    return b2a_base64(hmac.digest(secret, signed, "sha1"), newline=False)


class Signer:
    """Makes the same signatures for one secret in half the time: the hash of the secret is computed once."""

    __slots__ = ("_inner", "_outer", "block")

    def __init__(self, secret: str) -> None:
        key = secret.encode()
        if len(key) > _BLOCK:
            key = hashlib.sha1(key).digest()  # noqa: S324 (RocketMQ's choice)
        self.block = key.ljust(_BLOCK, b"\0")
        self._inner = hashlib.sha1(self.block.translate(_INNER))  # noqa: S324
        self._outer = hashlib.sha1(self.block.translate(_OUTER))  # noqa: S324

    def signature(self, text: bytes, body: bytes) -> bytes:
        """Return the signature of a request with this text and this body."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        inner.update(body)
        outer.update(inner.digest())
        return b2a_base64(outer.digest(), newline=False)


def signed(command: RemotingCommand, credentials: Credentials, nonce: str = "", now_ms: int = 0) -> RemotingCommand:
    """Return the request with its account and signature; raise LocalProtocolError if a text cannot be encoded.

    With a `nonce` it can be known if it is sent again.
    """
    fields = command.ext_fields
    if nonce:
        fields |= {CODE: str(int(command.code)), NONCE: nonce, TIME: str(now_ms)}
    fields |= credentials.fields()
    try:
        fields[SIGNATURE] = sign(fields, command.body, credentials.secret_key)
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"header text cannot be encoded: {error}") from None
    return replace(command, ext=fields)


def nonces() -> Iterator[str]:
    """Return the nonces of one connection: its id, and a number that grows."""
    connection = secrets.token_hex(8)
    return (f"{connection}.{number}" for number in itertools.count(1))


def name_account(answer: RemotingCommand, credentials: Credentials | None) -> None:
    """If the answer is a refusal by access control, replace its remark by plain words that name the account."""
    refusal = _REFUSAL.fullmatch((answer.remark or "").strip())
    if refusal is not None:
        if refusal["reason"].startswith("account "):  # our broker's words name it
            answer.remark = f"{ACCESS_DENIED}: {refusal['reason']}"
            return
        whom = f"account {credentials.access_key!r}" if credentials else "a client without credentials"
        answer.remark = f"{ACCESS_DENIED} to {whom}: {refusal['reason']}"


def _as_java_sorts(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
