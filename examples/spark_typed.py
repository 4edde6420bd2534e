"""Decode typed bodies: JSON with Spark itself, Avro and Protobuf with Arrow functions over fastavro and protobuf.

Start a broker with `pyromq up`, pip install fastavro, then: python examples/spark_typed.py [NAMESRV]
"""

# pyarrow and fastavro have no types.
# pyright: standard
from __future__ import annotations

import io
import json
import os
import sys
from typing import Any

import fastavro
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pyspark.sql import DataFrame, SparkSession, functions

from pyromq import Message
from pyromq.blocking import Producer
from pyromq.spark.session import local_session

ORDER = "id string, amount double"
ARROW_ORDER = pa.struct([("id", pa.string()), ("amount", pa.float64())])
AVRO_ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "double"}],
}


def proto_order() -> Any:
    """Return the class of a Protobuf message; with protoc it would be `from shop_pb2 import Order`."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=9, label=1)
    order.field.add(name="amount", number=2, type=1, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def decode_avro(bodies: pa.Array) -> pa.Array:
    """Decode Avro without a header, a column at a time; an invalid body becomes null."""
    schema = fastavro.parse_schema(AVRO_ORDER)

    def decode(body: bytes | None) -> Any:
        try:
            return body and fastavro.schemaless_reader(io.BytesIO(body), schema, None)
        except (EOFError, ValueError, IndexError):
            return None

    return pa.array([decode(body) for body in bodies.to_pylist()], ARROW_ORDER)


def decode_protobuf(bodies: pa.Array) -> pa.Array:
    """Decode Protobuf messages."""
    order = proto_order()
    decoded = [order.FromString(body) for body in bodies.to_pylist()]
    return pa.array([{"id": one.id, "amount": one.amount} for one in decoded], ARROW_ORDER)


from_avro = functions.arrow_udf(decode_avro, returnType=ORDER)  # type: ignore[attr-defined]  # exists, but is not typed
from_protobuf = functions.arrow_udf(decode_protobuf, returnType=ORDER)  # type: ignore[attr-defined]


def send_orders(namesrv: str) -> None:
    schema, order = fastavro.parse_schema(AVRO_ORDER), proto_order()
    with Producer(group="example-shop", namesrv=namesrv) as producer:
        for number in range(10):
            fields = {"id": f"o-{number}", "amount": number * 1.5}
            avro = io.BytesIO()
            fastavro.schemaless_writer(avro, schema, fields)
            bodies = {"json": json.dumps(fields).encode(), "avro": avro.getvalue()}
            bodies["protobuf"] = order(**fields).SerializeToString()
            for kind, body in bodies.items():
                producer.send(Message(topic=f"example-{kind}", body=body))


def main(namesrv: str, spark: SparkSession) -> None:
    def read(topic: str) -> DataFrame:
        return spark.read.format("pyromq").options(namesrv=namesrv, subscribe=topic, columns="body").load()

    send_orders(namesrv)
    orders = {
        "json": read("example-json").select(
            functions.from_json(functions.col("body").cast("string"), ORDER).alias("order")
        ),
        "avro": read("example-avro").select(from_avro("body").alias("order")),
        "protobuf": read("example-protobuf").select(from_protobuf("body").alias("order")),
    }
    for kind, frame in orders.items():
        (row,) = frame.selectExpr("count(order.id) as orders", "sum(order.amount) as amount").collect()
        print(f"{kind}: {row.orders} orders, {row.amount}")


if __name__ == "__main__":
    default = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    main(sys.argv[1] if len(sys.argv) > 1 else default, local_session("example"))
