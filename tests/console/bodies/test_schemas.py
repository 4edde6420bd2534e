import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from pyromq.console.bodies.masking import MaskingRule
from pyromq.console.bodies.rendering import BodyRules
from pyromq.console.bodies.schemas import BodySchema, message_types
from pyromq.errors import ConfigError
from pyromq.protocol.messages.message import MessageExt

FIELD = descriptor_pb2.FieldDescriptorProto


def descriptor() -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=FIELD.TYPE_INT64, label=FIELD.LABEL_OPTIONAL)
    order.field.add(name="card_number", number=2, type=FIELD.TYPE_STRING, label=FIELD.LABEL_OPTIONAL)
    file.message_type.add(name="Refund")
    data: bytes = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    return data


def order_body() -> bytes:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor()).file:
        pool.Add(file)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    body: bytes = order(id=7, card_number="4111").SerializeToString()
    return body


def schema(topic: str = "orders") -> BodySchema:
    return BodySchema(topic=topic, format="protobuf", data=descriptor(), message="shop.Order")


def test_protobuf_is_read_by_its_descriptor() -> None:
    shown = BodyRules([], [schema()]).render(MessageExt("orders", order_body()))
    assert shown.format == "protobuf"
    assert shown.text == '{\n  "id": "7",\n  "card_number": "4111"\n}'


def test_masking_goes_by_the_names_of_the_descriptor() -> None:
    rules = BodyRules([MaskingRule.parse("orders", "card_number")], [schema()])
    shown = rules.render(MessageExt("orders", order_body()))
    assert shown.text == '{\n  "id": "7",\n  "card_number": "•••"\n}'
    assert not shown.hex


def test_the_schema_of_another_topic_is_not_used() -> None:
    assert BodyRules([], [schema("payments")]).render(MessageExt("orders", order_body())).format != "protobuf"


@given(st.binary(max_size=100))
def test_any_body_is_shown_or_says_why_not(body: bytes) -> None:
    shown = BodyRules([], [schema()]).render(MessageExt("orders", body))
    assert shown.format in ("protobuf", "text", "binary", "empty")
    assert shown.problem or shown.format in ("protobuf", "empty")


def test_a_descriptor_lists_its_messages_and_wants_one_of_them() -> None:
    assert message_types(descriptor()) == ["shop.Order", "shop.Refund"]
    with pytest.raises(ConfigError, match=r"choose the type of the messages: shop\.Order, shop\.Refund"):
        BodySchema(topic="orders", format="protobuf", data=descriptor()).check()


@pytest.mark.parametrize("data", [b"", b"no descriptor", b"\x0a\x02\x0a\x00"])
def test_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError, match="descriptor set"):
        BodySchema(topic="orders", format="protobuf", data=data, message="x").check()
