import contextlib
import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.console.bodies import avro
from pyromq.console.bodies.masking import MaskingRule
from pyromq.console.bodies.rendering import BodyRules, render
from pyromq.console.bodies.schemas import BodySchema
from pyromq.errors import ConfigError
from pyromq.protocol.messages.message import MessageExt

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "card", "type": ["null", "string"]}],
}
RECORDS = [{"id": 1, "card": "4111"}, {"id": 2, "card": None}]


def packed(schema: Any = ORDER, records: Any = RECORDS, codec: str = "null") -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, records, codec=codec)
    return out.getvalue()


def single(record: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, ORDER, record)
    return out.getvalue()


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_containers_are_read(codec: str) -> None:
    assert avro.container(packed(codec=codec)) == (RECORDS, True)
    assert render(packed(codec=codec)).format == "avro"


def test_a_container_with_many_records_is_cut() -> None:
    records, is_whole = avro.container(packed(records=[{"id": n, "card": None} for n in range(500)]))
    assert len(records) == avro.MOST_RECORDS
    assert not is_whole


def test_a_block_that_unpacks_to_too_much_is_refused() -> None:
    bomb = packed(records=[{"id": 1, "card": "x" * 30_000_000}], codec="deflate")
    with pytest.raises(avro.NotAvro, match="more than is shown"):
        avro.container(bomb)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_damaged_containers_raise_one_error(noise: bytes, place: int) -> None:
    whole = packed()
    for data in (avro.MAGIC + noise, whole[:place] + noise + whole[place:], whole[: place + 20]):
        with contextlib.suppress(avro.NotAvro):
            avro.container(data)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]},
        {"type": "record", "name": "L", "fields": [{"name": "all", "type": {"type": "array", "items": "L"}}]},
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "record", "name": "E", "fields": []}},
        {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
    ],
)
def test_schemas_that_could_keep_the_decoder_busy_are_refused(schema: Any) -> None:
    with pytest.raises(avro.NotAvro):
        avro.parsed_schema(json.dumps(schema))


def test_a_schema_of_a_topic_reads_single_records_and_masks_them() -> None:
    schema = BodySchema(topic="orders", format="avro", data=json.dumps(ORDER).encode())
    rules = BodyRules([MaskingRule.parse("orders", "card")], [schema])
    shown = rules.render(MessageExt("orders", single(RECORDS[0])))
    assert shown.format == "avro"
    assert shown.text == '{\n  "id": 1,\n  "card": "•••"\n}'


def test_a_body_that_does_not_fit_its_schema_says_why_and_is_withheld_if_masked() -> None:
    schema = BodySchema(topic="orders", format="avro", data=json.dumps(ORDER).encode())
    message = MessageExt("orders", b'{"card": "4111"}')
    assert BodyRules([], [schema]).render(message).problem
    masked = BodyRules([MaskingRule.parse("orders", "card")], [schema]).render(message)
    assert masked.withheld
    assert masked.text is None


def test_a_wrong_schema_is_refused_when_it_is_uploaded() -> None:
    with pytest.raises(ConfigError, match="not an Avro schema"):
        BodySchema(topic="orders", format="avro", data=b'{"type": "records"}').check()
