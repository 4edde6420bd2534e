"""Codecs: Python values to the bodies of messages and back.

>>> from pyromq.codecs import Json, MessagePack, Avro, Protobuf

    codec.py          what a codec is; bytes need none
    typed_values.py   msgspec's types and Pydantic's models, and errors that name a field
    json_codec.py     the default          message_pack.py   the same types, smaller
    avro.py           with a schema (pyromq[schemas])           protobuf.py   generated classes (pyromq[schemas])
    topic_codecs.py   which codec a topic has

A producer encodes what `send("orders", value)` is given; an App decodes what a handler's signature asks for. The names
below are public and loaded on first use: fastavro and protobuf are extras.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyromq.codecs.avro import Avro as Avro
    from pyromq.codecs.codec import Codec as Codec
    from pyromq.codecs.json_codec import Json as Json
    from pyromq.codecs.message_pack import MessagePack as MessagePack
    from pyromq.codecs.protobuf import Protobuf as Protobuf

_HOMES = {
    "Avro": "avro",
    "Codec": "codec",
    "Json": "json_codec",
    "MessagePack": "message_pack",
    "Protobuf": "protobuf",
}

__all__ = ["Avro", "Codec", "Json", "MessagePack", "Protobuf"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'pyromq.codecs' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"pyromq.codecs.{_HOMES[name]}"), name)
    return value
