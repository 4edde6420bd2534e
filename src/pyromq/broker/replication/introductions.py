"""What our own brokers say to each other on the replication stream. They meet before the slave's first report:

    slave   Hello    who it is, and in which epoch it believes its master to be
    master  Welcome  a challenge, if there is a secret
    slave   Proof    its answer: HMAC-SHA256 of the challenge and the Hello, keyed with the secret
    master  Welcome  accepted, or the reason why not; then the connection ends

Whoever knows no secret gets nothing where one is set, Apache's slaves among them. Where only confirmed messages are
shown, a master then says between its transfers how far its own are visible: a slave shows no more than that.

    master  Confirmed  the end of the log up to which messages may be seen
"""

from __future__ import annotations

import hmac
from hashlib import sha256

import msgspec
from msgspec import Struct

from pyromq.errors import RemoteProtocolError
from pyromq.protocol.ha import encode_note
from pyromq.protocol.unreadable import UNREADABLE


class Hello(Struct, frozen=True, tag="hello"):
    """A slave introduces itself."""

    name: str
    """The broker's name: that of its master."""
    broker_id: int
    store: str
    """The id of its store's directory."""
    epoch: str
    """The id of the epoch in which its master said to be."""
    file_size: int
    """The size of a file of its log."""
    address: str = ""
    """Where it answers requests."""


class Proof(Struct, frozen=True, tag="proof"):
    """The answer to a challenge."""

    mac: str


class Welcome(Struct, frozen=True, tag="welcome"):
    """What a master says to a Hello or a Proof."""

    challenge: str = ""
    refusal: str = ""


class Confirmed(Struct, frozen=True, tag="confirmed"):
    """Up to where a master's messages are visible."""

    end: int


SlaveNote = Hello | Proof

_decode_slave = msgspec.json.Decoder(SlaveNote)
_decode_master = msgspec.json.Decoder(Welcome)
_decode_confirmed = msgspec.json.Decoder(Confirmed)


def encode(note: Hello | Proof | Welcome | Confirmed) -> bytes:
    """Write a note for the stream."""
    return encode_note(msgspec.json.encode(note))


def decode_slave_note(data: bytes) -> SlaveNote:
    """Read what a slave says of itself; raises RemoteProtocolError."""
    try:
        note: SlaveNote = _decode_slave.decode(data)
    except UNREADABLE as error:
        raise RemoteProtocolError(f"a slave introduces itself wrongly: {error}") from None
    return note


def decode_welcome(data: bytes) -> Welcome:
    """Read what a master says; raises RemoteProtocolError."""
    try:
        return _decode_master.decode(data)
    except UNREADABLE as error:
        raise RemoteProtocolError(f"a master answers wrongly: {error}") from None


def decode_confirmed(data: bytes) -> int:
    """Read up to where a master's messages are visible; raises RemoteProtocolError."""
    try:
        return _decode_confirmed.decode(data).end
    except UNREADABLE as error:
        raise RemoteProtocolError(f"a master says what a slave does not understand: {error}") from None


def proof(secret: str, challenge: str, hello: Hello) -> Proof:
    """Answer a challenge."""
    text = challenge.encode() + msgspec.json.encode(hello)
    return Proof(hmac.new(secret.encode(), text, sha256).hexdigest())


def is_proven(given: Proof, secret: str, challenge: str, hello: Hello) -> bool:
    """Return True if a proof can only come from one who knows the secret."""
    return hmac.compare_digest(given.mac, proof(secret, challenge, hello).mac)
