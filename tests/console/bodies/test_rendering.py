import gzip
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.console.bodies.masking import FieldMask, MaskingRule
from pyromq.console.bodies.rendering import BodyRules, RenderedBody, Withheld, render
from pyromq.console.bodies.tree import MOST_NODES, TreeNode
from pyromq.protocol.messages.compression import COMPRESSED_FLAG, ZLIB_TYPE, compress
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import encode_properties

SECRET = "4111-1111"
CARD = FieldMask([("card",)])


def all_text(shown: RenderedBody) -> str:
    """Return everything that a template could print."""
    return msgspec.json.encode(shown).decode() + "".join(row.characters for row in shown.hex) + shown.line


def names(node: TreeNode) -> list[str | None]:
    return [child.name for child in node.children]


def test_json_becomes_a_tree_text_and_hex() -> None:
    shown = render(b'{"id": 1, "items": [{"n": true}], "note": null}')
    assert (shown.format, shown.size) == ("json", 47)
    assert shown.tree is not None
    assert names(shown.tree) == ["id", "items", "note"]
    assert [child.kind for child in shown.tree.children] == ["number", "list", "null"]
    assert shown.text == '{\n  "id": 1,\n  "items": [\n    {\n      "n": true\n    }\n  ],\n  "note": null\n}'
    assert shown.hex[0].characters == '{"id": 1, "items'
    assert shown.line == '{ "id": 1, "items": [ { "n": true } ], "note": null }'


@pytest.mark.parametrize(
    ("body", "format"),
    [
        (b"", "empty"),
        (b"hello", "text"),
        (b"4111", "text"),
        ("\ufeffh\u00e9".encode("utf-16"), "text"),
        (b"\xff\xfe\x00", "binary"),
        (b"\x00\x01\x02", "binary"),
        (b'{"a": 1}\n{"a": 2}\n', "json-lines"),
        (b'{"a": 1', "text"),
        (msgspec.msgpack.encode({"a": [1, b"\x00"]}), "msgpack"),
        (b"[" * 100_000, "text"),
    ],
)
def test_formats_are_guessed(body: bytes, format: str) -> None:
    assert render(body).format == format


def test_compressed_json_names_its_layers() -> None:
    shown = render(gzip.compress(b'{"id": 1}'))
    assert (shown.layers, shown.format) == (("gzip",), "json")


def test_a_large_body_is_cut_and_says_so() -> None:
    shown = render(msgspec.json.encode([{"n": number} for number in range(60_000)]))
    assert shown.is_cut
    assert shown.tree is not None
    assert len(shown.tree.children) < MOST_NODES
    assert shown.tree.left_out == 60_000 - len(shown.tree.children)


def test_nothing_invisible_stays_invisible() -> None:
    shown = render("a\u202eb\x07c\n".encode())
    assert shown.text == "a⟨U+202E⟩b␇c\n"


@given(st.binary(max_size=400))
def test_any_bytes_are_rendered(body: bytes) -> None:
    shown = render(body)
    assert shown.size == len(body)
    assert shown.withheld is None
    all_text(shown)


WRAPPERS: list[Any] = [
    lambda card: msgspec.json.encode({"id": 7, "card": card}),
    lambda card: msgspec.json.encode([{"card": card}, {"card": {"number": card}}]),
    lambda card: gzip.compress(msgspec.json.encode({"card": card})),
    lambda card: msgspec.msgpack.encode({"card": card}),
    lambda card: b'{"card": "x", "card": "%s"}' % card.encode(),
    lambda card: b'{"card": "%s", "card": "x"}' % card.encode(),
    lambda card: msgspec.json.encode({"card": card}) + b"\n" + msgspec.json.encode({"card": card}),
    lambda card: msgspec.json.encode({"card": card})[:-1],
    lambda card: b"card=" + card.encode(),
    lambda card: msgspec.json.encode(card),
    lambda card: b"\x00\x01" + card.encode(),
    lambda card: b'\xef\xbb\xbf{"card": "%s"}' % card.encode(),
    lambda card: b'{"c\\u0061rd": "%s"}' % card.encode(),
]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_masked_field_leaks_nowhere(wrap: Any) -> None:
    body = wrap(SECRET)
    shown = render(body, CARD)
    for form in (SECRET, SECRET.encode().hex(" "), SECRET.encode().hex()):
        assert form not in all_text(shown)
    assert not shown.hex
    message = MessageExt("orders", body)
    rules = BodyRules([MaskingRule.parse("orders", "card")])
    assert SECRET.encode() not in rules.seen(message).body
    assert SECRET not in all_text(rules.render(message))


def test_what_is_not_masked_is_still_there() -> None:
    shown = render(b'{"id": 7, "card": "4111"}', CARD)
    assert shown.is_masked
    assert shown.text == '{\n  "id": 7,\n  "card": "•••"\n}'
    assert shown.tree is not None
    assert [child.kind for child in shown.tree.children] == ["number", "masked"]


def test_a_body_that_cannot_be_taken_apart_is_withheld_where_rules_apply() -> None:
    shown = render(b"card=4111", CARD)
    assert shown.withheld is Withheld.MASKED
    assert (shown.text, shown.tree, shown.hex) == (None, None, ())


def test_a_role_without_bodies_sees_nothing_of_them() -> None:
    rules = BodyRules().without_bodies()
    message = MessageExt("orders", b'{"id": 7}')
    shown = rules.render(message)
    assert shown.withheld is Withheld.ROLE
    assert (shown.size, shown.text, shown.tree, shown.hex) == (9, None, None, ())
    assert rules.seen(message).body == b""
    assert message.body == b'{"id": 7}'


def test_dead_letters_are_masked_by_the_rules_of_their_own_topic() -> None:
    properties = encode_properties({"RETRY_TOPIC": "orders"}).encode()
    message = MessageExt("%DLQ%billing", b'{"card": "4111"}', properties)
    assert "4111" not in all_text(BodyRules([MaskingRule.parse("orders", "card")]).render(message))


def test_compressed_messages_are_seen_masked_too() -> None:
    body = compress(b'{"card": "4111", "id": 7}')
    message = MessageExt("orders", body, sys_flag=COMPRESSED_FLAG | ZLIB_TYPE)
    seen = BodyRules([MaskingRule.parse("orders", "card")]).seen(message)
    assert msgspec.json.decode(seen.body) == {"card": "•••", "id": 7}


def test_masked_properties_are_seen_masked() -> None:
    message = MessageExt("orders", b"{}", encode_properties({"card": "4111", "size": "1"}).encode())
    rules = BodyRules([MaskingRule.parse("orders", "card")])
    assert rules.seen(message).properties == rules.properties(message) == {"card": "•••", "size": "1"}
    assert message.properties["card"] == "4111"


def test_a_damaged_body_is_shown_as_it_is_stored() -> None:
    message = MessageExt("orders", b"not zlib", sys_flag=COMPRESSED_FLAG | ZLIB_TYPE)
    assert BodyRules().render(message).text == "not zlib"
