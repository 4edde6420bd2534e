"""AsyncAPI: the document that says what an App receives and sends (version 3 of the specification)."""

from __future__ import annotations

import inspect
import re
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from pyromq.app.application import App
from pyromq.app.handlers import Handler, Publication
from pyromq.client.consume.subscriptions import Function, Sql
from pyromq.client.net.address import chosen_namesrv
from pyromq.codecs.codec import Codec, PayloadSchema
from pyromq.codecs.typed_values import type_name
from pyromq.errors import ClientError
from pyromq.protocol.tag_filter import EVERYTHING

_SCHEMAS: Final = "#/components/schemas/{name}"
_UNFIT: Final = re.compile(r"[^\w.\-]+")


def asyncapi(app: App) -> dict[str, Any]:
    """Return the document of an App: plain values, for JSON or YAML."""
    document = _Document()
    for handler in app.handlers:
        document.add_handler(handler)
    for function, publication in app.parts.publications.items():
        document.add_publication(function, publication, app)
    description = inspect.getdoc(inspect.getmodule(app.handlers[0].signature.function)) if app.handlers else None
    return {
        "asyncapi": "3.0.0",
        "info": {"title": app.title, "version": app.version, **({"description": description} if description else {})},
        "defaultContentType": "application/json",
        "servers": {"cluster": {"host": _host(app), "protocol": "rocketmq", "protocolVersion": "4.9"}},
        "channels": document.channels,
        "operations": document.operations,
        "components": {"messages": document.messages, "schemas": document.schemas},
    }


class _Document:
    """The parts of a document that handlers and publications fill."""

    def __init__(self) -> None:
        self.channels: dict[str, Any] = {}
        self.operations: dict[str, Any] = {}
        self.messages: dict[str, Any] = {}
        self.schemas: dict[str, Any] = {}

    def add_handler(self, handler: Handler) -> None:
        """Add what a handler receives."""
        signature = handler.signature
        kind = bytes if signature.payload is None else signature.kind
        message = self._message(handler.topic, kind, handler.codec)
        self.operations[self._free(handler.name)] = {
            "action": "receive",
            "channel": {"$ref": f"#/channels/{handler.topic}"},
            "messages": [{"$ref": message}],
            **_description(signature.function),
            "x-rocketmq": {"group": handler.group, **_filter(handler)},
        }

    def add_publication(self, function: Any, publication: Publication, app: App) -> None:
        """Add what a handler sends."""
        found = [handler for handler in app.handlers if handler.signature.function is function]
        returns = found[0].signature.returns if found else Any
        message = self._message(publication.topic, _without_none(returns), app.codecs.of(publication.topic))
        self.operations[self._free(f"{function.__name__}.publish")] = {
            "action": "send",
            "channel": {"$ref": f"#/channels/{publication.topic}"},
            "messages": [{"$ref": message}],
            **({"x-rocketmq": {"tags": publication.tags}} if publication.tags else {}),
        }

    def _message(self, topic: str, kind: Any, codec: Codec) -> str:
        """Add a message to a channel and to the components; return its reference in the channel."""
        name = _UNFIT.sub("_", type_name(kind))
        key = f"{_UNFIT.sub('_', topic)}.{name}"
        self.messages[key] = {
            "name": name,
            "title": name,
            "contentType": codec.content_type if kind is not bytes else "application/octet-stream",
            "payload": self._payload(codec, kind),
        }
        channel = self.channels.setdefault(topic, {"address": topic, "messages": {}})
        channel["messages"][name] = {"$ref": f"#/components/messages/{key}"}
        return f"#/channels/{topic}/messages/{name}"

    def _payload(self, codec: Codec, kind: Any) -> Any:
        try:
            found = codec.schema(kind, _SCHEMAS)
        except (TypeError, ClientError, NotImplementedError):  # what a handler returns may be of any type
            found = PayloadSchema({})
        self.schemas.update(found.definitions)
        if found.schema_format is not None:
            return {"schemaFormat": found.schema_format, "schema": found.schema}
        return found.schema

    def _free(self, name: str) -> str:
        number, free = 1, name
        while free in self.operations:
            number += 1
            free = f"{name}.{number}"
        return free


def _host(app: App) -> str:
    namesrv = chosen_namesrv(app.namesrv)
    return namesrv if isinstance(namesrv, str) else ";".join(namesrv)


def _description(function: Any) -> dict[str, str]:
    text = inspect.getdoc(function)
    return {"description": text} if text else {}


def _filter(handler: Handler) -> dict[str, str]:
    match handler.expression:
        case Sql(expression=text):
            return {"sql": text}
        case Function(name=text):
            return {"function": text}
        case text:
            return {} if text == EVERYTHING else {"tags": text}


def _without_none(kind: Any) -> Any:
    if kind is inspect.Parameter.empty:
        return Any
    if get_origin(kind) in (Union, UnionType):
        rest = [each for each in get_args(kind) if each is not NoneType]
        return rest[0] if len(rest) == 1 else kind
    return kind
