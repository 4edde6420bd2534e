"""The page of an App: what it receives and sends, from its AsyncAPI document, in one HTML file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from pyromq.pipelines.pages.page import Cell, Tile, card, document, section, table, tiles


def app_page(api: Mapping[str, Any]) -> str:
    """Return the page of an AsyncAPI document."""
    info, operations, components = api["info"], api["operations"], api["components"]
    received = {name: each for name, each in operations.items() if each["action"] == "receive"}
    sent = {name: each for name, each in operations.items() if each["action"] == "send"}
    groups = {each["x-rocketmq"]["group"] for each in received.values()}
    parts = [
        tiles(
            [
                Tile("topics", str(len(api["channels"]))),
                Tile("handlers", str(len(received)), ", ".join(sorted(groups))),
                Tile("publications", str(len(sent))),
                Tile("name servers", api["servers"]["cluster"]["host"]),
            ]
        ),
        section("Receives", [_operations(api, received)]),
        *([section("Sends", [_operations(api, sent)])] if sent else []),
        section("Messages", [card(key, _schema(each), wide=True) for key, each in components["messages"].items()]),
    ]
    schemas = components["schemas"]
    if schemas:
        parts.append(section("Types", [card(name, _fields(schema), wide=True) for name, schema in schemas.items()]))
    subtitle = info.get("description", "").partition("\n")[0]
    return document(f"{info['title']} {info['version']}", subtitle, parts, "AsyncAPI 3.0.0, made by pyromq docs")


def _operations(api: Mapping[str, Any], operations: Mapping[str, Any]) -> str:
    rows = [
        (
            name,
            each["channel"]["$ref"].removeprefix("#/channels/"),
            ", ".join(reference["$ref"].rpartition("/")[2] for reference in each["messages"]),
            ", ".join(f"{key} {value}" for key, value in each.get("x-rocketmq", {}).items()),
            each.get("description", "").partition("\n")[0],
        )
        for name, each in operations.items()
    ]
    return table(["handler", "topic", "message", "group and filter", "what it does"], rows)


def _schema(message: Mapping[str, Any]) -> str:
    payload = message["payload"]
    shown = payload.get("schema", payload) if isinstance(payload, Mapping) else payload
    kind = f"<p>{escape(message['contentType'])}</p>"
    if isinstance(shown, Mapping) and "properties" in shown:
        return kind + _fields(shown)
    text = shown if isinstance(shown, str) else json.dumps(shown, indent=2, ensure_ascii=False)
    return f"{kind}<pre>{escape(text)}</pre>"


def _fields(schema: Mapping[str, Any]) -> str:
    if "properties" not in schema:
        return f"<pre>{escape(json.dumps(schema, indent=2, ensure_ascii=False))}</pre>"
    required = set(schema.get("required", ()))
    rows = [
        (name, Cell(f"<code>{escape(_type(field))}</code>"), "yes" if name in required else "", _note(field))
        for name, field in schema["properties"].items()
    ]
    return table(["field", "type", "required", "note"], rows)


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "anyOf" in field:
        return " | ".join(_type(each) for each in field["anyOf"])
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    return str(field.get("format") or field.get("type") or "any")


def _note(field: Mapping[str, Any]) -> str:
    default = f"default {json.dumps(field['default'])}" if "default" in field else ""
    return "; ".join(part for part in (str(field.get("description", "")), default) if part)
