"""render(): the body of a message as a value that a template shows."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pyromq.console.bodies.decoders import Decoded, decode
from pyromq.console.bodies.hexdump import HexRow, hex_rows
from pyromq.console.bodies.inflation import MOST_BYTES, unpack
from pyromq.console.bodies.masking import FieldMask, Masked, MaskingRule, MaskingRules, topics_of
from pyromq.console.bodies.schemas import BodySchema, BodySchemas, CannotDecode, Decoder
from pyromq.console.bodies.tree import TreeNode, tree_of
from pyromq.console.bodies.visible_text import visible
from pyromq.errors import MalformedHeader
from pyromq.protocol.messages.compression import COMPRESSED_FLAG
from pyromq.protocol.messages.message import MessageExt

MOST_CHARACTERS: Final = 64 * 1024
LINE: Final = 160


class Withheld(StrEnum):
    """Why nothing of a body is shown."""

    ROLE = "role"
    """The user may not see bodies."""
    MASKED = "masked"
    """Fields of this topic are masked, and this body cannot be taken apart."""


class RenderedBody(Struct, frozen=True, kw_only=True):
    """A body as it is shown. Every text in it is plain text of a stranger."""

    size: int
    format: str
    """json, json-lines, msgpack, avro, protobuf, text, binary or empty."""
    layers: tuple[str, ...] = ()
    """The compressions around it, the outermost first."""
    tree: TreeNode | None = None
    text: str | None = None
    """The body as text; of a decoded one as indented JSON."""
    hex: tuple[HexRow, ...] = ()
    is_masked: bool = False
    """True if masking rules apply: text and tree are what they leave, and there is no hex."""
    is_cut: bool = False
    """True if only the beginning is shown."""
    withheld: Withheld | None = None
    problem: str = ""
    """Why the schema of its topic could not be applied."""

    @property
    def line(self) -> str:
        """Its beginning on one line, for lists."""
        text = " ".join((self.text or "").split())
        return text if len(text) <= LINE else f"{text[:LINE]}…"


class BodyRules:
    """What one user may see of bodies: masking rules, schemas, and whether bodies are shown at all."""

    def __init__(
        self,
        masks: Iterable[MaskingRule] = (),
        schemas: BodySchemas | Iterable[BodySchema] = (),
        *,
        shows_bodies: bool = True,
    ) -> None:
        self.masks = MaskingRules(masks)
        self.schemas = schemas if isinstance(schemas, BodySchemas) else BodySchemas(schemas)
        self.shows_bodies = shows_bodies

    def without_bodies(self) -> BodyRules:
        """Return the rules of a user who may not see bodies."""
        other = copy(self)
        other.shows_bodies = False
        return other

    def mask_of(self, message: MessageExt) -> FieldMask:
        """Return the fields that are masked in a message."""
        return self.masks.of_topics(topics_of(message))

    def render(self, message: MessageExt) -> RenderedBody:
        """Return the body of a message as this user sees it."""
        body = body_of(message)
        if not self.shows_bodies:
            return RenderedBody(size=len(body), format="", withheld=Withheld.ROLE)
        return render(body, self.mask_of(message), self.schemas.of_topics(topics_of(message)))

    def seen(self, message: MessageExt) -> MessageExt:
        """Return a message with the body that this user sees, for conditions and exports; empty if it is withheld."""
        mask = self.mask_of(message)
        if self.shows_bodies and not mask:
            return message
        body = b""
        if self.shows_bodies:
            body = masked_body(body_of(message), mask, self.schemas.of_topics(topics_of(message)))
        plain = message.sys_flag & ~COMPRESSED_FLAG
        properties = mask.properties(message.properties)
        return replace(message, stored_body=body, sys_flag=plain, _body=None, _properties=properties)

    def properties(self, message: MessageExt) -> dict[str, str]:
        """Return the properties of a message as this user sees them."""
        return self.mask_of(message).properties(message.properties)


def body_of(message: MessageExt) -> bytes:
    """Return a body; as it is stored if its own compression is damaged."""
    try:
        return message.body
    except MalformedHeader:
        return message.stored_body


def render(body: bytes, mask: FieldMask | None = None, schema: Decoder | None = None) -> RenderedBody:
    """Return a body as tree, text and hex, without what is masked."""
    if not body:
        return RenderedBody(size=0, format="empty", text="")
    data, layers, is_whole = unpack(body)
    shown = data[:MOST_BYTES]
    is_cut = not is_whole or len(shown) < len(data)
    found, problem = _taken_apart(shown, schema)
    has_fields = found is not None and isinstance(found.value, (dict, list))
    if mask and not has_fields:
        return RenderedBody(size=len(body), format="", withheld=Withheld.MASKED, problem=problem)
    if found is None:
        return _plain_body(len(body), layers, shown, is_cut, problem)
    value = mask.apply(found.value) if mask else found.value
    text = pretty(value)
    return RenderedBody(
        size=len(body),
        format=found.format,
        layers=layers,
        tree=tree_of(value),
        text=text[:MOST_CHARACTERS],
        hex=() if mask else hex_rows(shown),
        is_masked=bool(mask),
        is_cut=is_cut or not found.is_whole or len(text) > MOST_CHARACTERS,
    )


def masked_body(body: bytes, mask: FieldMask, schema: Decoder | None = None) -> bytes:
    """Return what a mask leaves of a body, as JSON; nothing if the body cannot be taken apart."""
    found, _ = _taken_apart(unpack(body).data[:MOST_BYTES], schema)
    if found is None or not isinstance(found.value, (dict, list)):
        return b""
    return msgspec.json.encode(_printable(mask.apply(found.value)))


def _taken_apart(data: bytes, schema: Decoder | None) -> tuple[Decoded | None, str]:
    if schema is None:
        return decode(data), ""
    try:
        return Decoded(schema.schema.format, schema.decode(data)), ""
    except CannotDecode as error:
        return None, str(error)


def _plain_body(size: int, layers: tuple[str, ...], data: bytes, is_cut: bool, problem: str) -> RenderedBody:
    text = as_text(data, is_cut=is_cut)
    return RenderedBody(
        size=size,
        format="binary" if text is None else "text",
        layers=layers,
        text=None if text is None else visible(text[:MOST_CHARACTERS]),
        hex=hex_rows(data),
        is_cut=is_cut or len(text or "") > MOST_CHARACTERS,
        problem=problem,
    )


def as_text(data: bytes, *, is_cut: bool = False) -> str | None:
    """Return bytes as text: UTF-8, or UTF-16 with its mark; None if they are neither."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        try:
            return data.decode("utf-16")
        except UnicodeDecodeError:
            return None
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if not is_cut or error.start < len(data) - 3:
            return None
        text = data[: error.start].decode()
    return None if "\0" in text else text


def pretty(value: Any) -> str:
    """Return a value as indented JSON."""
    return visible(msgspec.json.format(msgspec.json.encode(_printable(value)), indent=2).decode(errors="replace"))


def _printable(value: Any) -> Any:
    """Return a value that JSON can hold."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): _printable(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_printable(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return hex(value)
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    return Masked.TEXT if isinstance(value, Masked) else str(value)
