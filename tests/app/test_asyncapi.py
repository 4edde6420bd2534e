"""The AsyncAPI document of an App."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct
from pydantic import BaseModel

from pyromq import App, MessageExt
from pyromq.app.asyncapi import asyncapi
from pyromq.codecs import Avro, Json

SCHEMA = {"type": "record", "name": "Stock", "fields": [{"name": "id", "type": "string"}]}


class Line(Struct):
    name: str


class Order(Struct):
    id: str
    lines: list[Line] = []


class Customer(BaseModel):
    name: str
    address: dict[str, str] | None = None


def shop() -> App:
    app = App("shop", "a:1;b:2", version="1.2", title="The shop", codec={"stock": Avro(SCHEMA)})

    @app.on("orders", group="billing", tags="created")
    @app.publishes("paid", tags="new")
    async def bill(order: Order) -> Customer | None:
        """Charge an order."""
        return None

    @app.on("orders", group="large", sql="cents > 10")
    async def look(message: MessageExt) -> None: ...

    @app.on("stock", group="billing")
    async def count(stock: dict[str, Any]) -> None: ...

    return app


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [found for each in value.values() for found in references(each)]
    return [found for each in value for found in references(each)] if isinstance(value, list) else []


def resolve(document: Any, reference: str) -> Any:
    for part in reference.removeprefix("#/").split("/"):
        document = document[part]
    return document


def test_the_document_says_what_is_received_and_sent() -> None:
    document = json.loads(json.dumps(asyncapi(shop())))
    assert document["asyncapi"] == "3.0.0"
    assert document["info"]["title"] == "The shop"
    assert document["servers"]["cluster"]["host"] == "a:1;b:2"
    assert set(document["channels"]) == {"orders", "paid", "stock"}
    bill = document["operations"]["bill"]
    assert (bill["action"], bill["description"]) == ("receive", "Charge an order.")
    assert bill["x-rocketmq"] == {"group": "billing", "tags": "created"}
    assert document["operations"]["look"]["x-rocketmq"] == {"group": "large", "sql": "cents > 10"}
    assert document["operations"]["bill.publish"]["action"] == "send"
    (stock,) = [each for key, each in document["components"]["messages"].items() if key.startswith("stock.")]
    assert stock["payload"]["schema"] == SCHEMA
    assert "properties" in document["components"]["schemas"]["Line"]


def test_every_reference_leads_somewhere() -> None:
    document = asyncapi(shop())
    found = references(document)
    assert len(found) > 8
    for reference in found:
        assert resolve(document, reference)


def test_a_message_of_a_channel_is_found_from_its_operation() -> None:
    document = asyncapi(shop())
    for operation in document["operations"].values():
        for message in operation["messages"]:
            assert message["$ref"].startswith(operation["channel"]["$ref"] + "/messages/"), "as the specification says"
    assert Json().content_type == document["defaultContentType"]
