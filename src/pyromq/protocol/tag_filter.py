"""Tag expressions such as `created || paid`, and the tag hash by which brokers filter."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from sys import byteorder
from typing import NamedTuple

from pyromq.errors import LocalProtocolError
from pyromq.protocol.bodies.clients import MAX_EXPRESSION, SubscriptionData

EVERYTHING = "*"
TAG = "TAG"
SQL92 = "SQL92"
FUNCTION = "FUNCTION"  # PyroMQ's own: the name of a filter that the broker's operator installed

JAVA_BLANKS = "".join(map(chr, range(0x21)))  # what Java's trim() removes
_NATIVE_UTF16 = "utf-16-le" if byteorder == "little" else "utf-16-be"


def java_hash(text: str) -> int:
    """Return Java's String.hashCode: signed 32 bits over UTF-16 units."""
    value = 0
    for unit in _utf16_units(text):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - ((value & 0x80000000) << 1)


def _utf16_units(text: str) -> Iterable[int]:
    return text.encode() if text.isascii() else array("H", text.encode(_NATIVE_UTF16, "surrogatepass"))


class _TagCodes(dict[str, int]):
    # A dict with __missing__ is ten times faster than hashing again. Clients choose the tags, so it is bounded twice.
    _MAX_TAGS = 10_000
    _MAX_TAG_LENGTH = 128

    def __missing__(self, tag: str) -> int:
        code = java_hash(tag)
        if len(tag) <= self._MAX_TAG_LENGTH:
            if len(self) >= self._MAX_TAGS:
                self.clear()
            self[tag] = code
        return code


_tag_codes = _TagCodes()


def tag_code(tag: str | None) -> int:
    """Return the tags code of a consume queue entry: the tag's Java hash, 0 without a tag."""
    return _tag_codes[tag] if tag else 0


class TagFilter(NamedTuple):
    """A parsed tag expression: the tags in order, and their hashes."""

    expression: str
    tags: tuple[str, ...]
    codes: frozenset[int]

    @property
    def everything(self) -> bool:
        """True if every message passes, with or without a tag."""
        return self.expression == EVERYTHING

    def accepts(self, tag: str | None) -> bool:
        """Return True if a consumer wants this tag. Brokers compare only hashes, so consumers check again."""
        return not self.tags or tag in self.tags


def parse_tags(expression: str | None) -> TagFilter:
    """Read a tag expression; raise LocalProtocolError if it consists of separators only, or is too long.

    Blanks alone are accepted, as RocketMQ does, and match nothing at the broker.
    """
    if not expression or expression == EVERYTHING:
        return TagFilter(EVERYTHING, (), frozenset())
    if len(expression) > MAX_EXPRESSION:
        raise LocalProtocolError(f"a tag expression has {len(expression)} characters, the limit is {MAX_EXPRESSION}")
    parts = expression.split("||")
    if not any(parts):
        raise LocalProtocolError(f"no tag in the expression {expression!r}")
    tags = tuple(dict.fromkeys(tag for part in parts if (tag := part.strip(JAVA_BLANKS))))
    return TagFilter(expression, tags, frozenset(map(tag_code, tags)))


def subscription_data(topic: str, expression: str | None, version: int) -> SubscriptionData:
    """Return the form of a tag subscription in a heartbeat; the version is the time of the subscription in ms."""
    tags = parse_tags(expression)
    return SubscriptionData(
        topic=topic,
        sub_string=tags.expression,
        tags_set=list(tags.tags),
        code_set=list(dict.fromkeys(map(tag_code, tags.tags))),
        sub_version=version,
        expression_type=TAG,
    )
