"""Access control: every request names an account and carries a signature, which only its secret key can make.

    Signature = base64(HMAC-SHA1(secret key, values of the ext fields in the order of their names, then the body))

A signature holds no time and no number: who can listen can send the same request again. Only TLS helps against that.
"""

from __future__ import annotations

import hmac
import re
from binascii import b2a_base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from pyromq.errors import ClientError, LocalProtocolError
from pyromq.protocol.command import RemotingCommand

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 (a field's name)
SIGNATURE: Final = "Signature"

# Java's clients from 4.9.4 on sign the second one too; no 4.9 broker counts it, and refuses their queries by key.
_NOT_SIGNED: Final = frozenset({SIGNATURE, "_UNIQUE_KEY_QUERY"})

ACCESS_DENIED: Final = "access denied"
"""How the remark of a refusal begins, once `name_account` has seen it."""

_REFUSAL = re.compile(r"[\w.]*\bAclException: (?P<reason>.*?)(?:, [\w.$]+\([\w.]+(?::\d+)?\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Credentials:
    """An account of a cluster that has access control; its text never shows the secrets.

    >>> Producer("shop", "127.0.0.1:9876", credentials=Credentials("shop-app", secret_key))
    """

    access_key: str
    """The account's name."""
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)
    """Of a temporary account, as some hosted clusters give them out."""

    def __post_init__(self) -> None:
        if not (self.access_key and self.secret_key):
            raise ClientError("credentials are an access key and a secret key; one of them is empty")

    def fields(self) -> dict[str, str]:
        """Return the ext fields that name the account."""
        named = {ACCESS_KEY: self.access_key}
        return named if self.security_token is None else {**named, SECURITY_TOKEN: self.security_token}


def sign(fields: Mapping[str, str], body: bytes, secret: str) -> str:
    """Return the signature of a request with these ext fields, as both sides calculate it."""
    in_order = sorted(fields, key=None if "".join(fields).isascii() else _as_java_sorts)
    text = "".join([fields[name] for name in in_order if name not in _NOT_SIGNED])
    return signature(text.encode() + body, secret.encode()).decode()


def signature(signed: bytes, secret: bytes) -> bytes:
    """Return the signature of bytes."""
    return b2a_base64(hmac.digest(secret, signed, "sha1"), newline=False)


def signed(command: RemotingCommand, credentials: Credentials) -> RemotingCommand:
    """Return a request with the fields by which brokers know who sent it; raise LocalProtocolError."""
    fields = command.ext_fields | credentials.fields()
    try:
        fields[SIGNATURE] = sign(fields, command.body, credentials.secret_key)
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"header text cannot be encoded: {error}") from None
    return replace(command, ext=fields)


def name_account(answer: RemotingCommand, credentials: Credentials | None) -> None:
    """Have the answer of a broker that refuses an account say so in plain words, and which account it was."""
    refusal = _REFUSAL.fullmatch((answer.remark or "").strip())
    if refusal is not None:
        whom = f"account {credentials.access_key!r}" if credentials else "a client without credentials"
        answer.remark = f"{ACCESS_DENIED} to {whom}: {refusal['reason']}"


def _as_java_sorts(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
