"""Fields that nobody sees: rules by topic, each with the path of a field in decoded bodies.

    orders*    customer.card        the field `card` of the object `customer`
    orders*    *.price              `*` is any one field
    *          password             a single name is masked at any depth, and as a property
    *          customer.**.pin      `**` is any number of fields, none included

Upper and lower case are the same; `*` in a topic is any text. Lists do not count in a path: `items.price` masks the
price of every item, and so does `items.*.price`. If a named field should have fields and has none, all of it is masked.
So is a text that holds JSON with a masked field.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
from msgspec import Struct

from pyromq.errors import ConfigError
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import MessageExt

ANY: Final = "*"
ANY_DEPTH: Final = "**"
_DEEPEST: Final = 200


class Masked:
    """What stands in the place of a masked value."""

    TEXT: ClassVar[str] = "•••"

    def __repr__(self) -> str:
        return self.TEXT


MASKED: Final = Masked()


class MaskingRule(Struct, frozen=True):
    """A field that is not shown, in the topics that a pattern matches."""

    topic: str
    field: str

    @classmethod
    def parse(cls, topic: str, field: str) -> MaskingRule:
        """Return a rule; raise ConfigError if it is empty or could never match."""
        parts = field.split(".")
        if not topic or not all(parts) or all(part == ANY_DEPTH for part in parts):
            raise ConfigError(f"a masking rule needs a topic and the path of a field, not {topic!r} {field!r}")
        return cls(topic, field)

    @property
    def path(self) -> tuple[str, ...]:
        """The names on the way to the field."""
        parts = tuple(self.field.casefold().split("."))
        return (ANY_DEPTH, *parts) if len(parts) == 1 else parts


class MaskingRules:
    """All rules of a console."""

    def __init__(self, rules: Iterable[MaskingRule] = ()) -> None:
        self._rules = tuple(rules)

    def __iter__(self) -> Iterator[MaskingRule]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def of_topics(self, topics: Iterable[str | None]) -> FieldMask:
        """Return the fields that are masked in a message which belongs, or belonged, to these topics."""
        names = [name for name in topics if name]
        return FieldMask([rule.path for rule in self._rules if any(fnmatchcase(name, rule.topic) for name in names)])


def topics_of(message: MessageExt) -> tuple[str | None, ...]:
    """Return the topics of a message: dead letters, retries and delayed messages lie in another one than their own."""
    told = message.properties
    return (message.topic, *(told.get(name) for name in (names.REAL_TOPIC, names.RETRY_TOPIC, names.ORIGIN_TOPIC)))


class _Rest(NamedTuple):
    path: tuple[str, ...]
    is_named: bool = False
    """True if the last field on the way was named, not matched by a star."""


class FieldMask:
    """The fields that are masked in one message."""

    def __init__(self, paths: Sequence[tuple[str, ...]] = ()) -> None:
        self._paths = tuple(paths)

    def __bool__(self) -> bool:
        return bool(self._paths)

    def properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return properties without the values of those that a rule masks by a single name."""
        hidden = {path[-1] for path in self._paths if path[:-1] == (ANY_DEPTH,)}
        return {name: Masked.TEXT if name.casefold() in hidden else text for name, text in properties.items()}

    def apply(self, value: Any) -> Any:
        """Return a decoded value without the masked fields."""
        return _masked(value, [_Rest(path) for path in self._paths], 0) if self._paths else value


def _masked(value: Any, paths: Collection[_Rest], depth: int) -> Any:
    """Return a value without what the paths lead to. They are not at their end: then all of it would be masked."""
    if depth > _DEEPEST:
        return MASKED
    if isinstance(value, (list, tuple)):
        inside = {*paths, *(_Rest(path.path[1:]) for path in paths if path.path[0] == ANY and path.path[1:])}
        return [_masked(each, inside, depth + 1) for each in value]
    if isinstance(value, Mapping):
        return {key: _field(str(key).casefold(), each, paths, depth + 1) for key, each in value.items()}
    if value is None or isinstance(value, bool):
        return value
    if any(rest.is_named for rest in paths) or _hides_fields(value, paths, depth):
        return MASKED
    return value


def _field(name: str, value: Any, paths: Collection[_Rest], depth: int) -> Any:
    rests = {rest for path in paths for rest in _after(name, path.path)}
    if any(not rest.path for rest in rests):
        return MASKED
    return _masked(value, rests, depth) if rests else value


def _after(name: str, path: tuple[str, ...]) -> Iterator[_Rest]:
    """Yield what is left of a path behind a field."""
    head, rest = path[0], path[1:]
    if head == ANY_DEPTH:
        yield _Rest(path)
        if rest:
            yield from _after(name, rest)
    elif head == ANY:
        yield _Rest(rest)
    elif head == name:
        yield _Rest(rest, is_named=True)


def _hides_fields(value: Any, paths: Collection[_Rest], depth: int) -> bool:
    """Return True if a text holds JSON with such fields, or something that looks like JSON and cannot be read."""
    if not isinstance(value, (str, bytes)):
        return False
    data = value.encode(errors="replace") if isinstance(value, str) else value
    if not data.lstrip().startswith((b"{", b"[")):
        return False
    try:
        inner = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return True
    return bool(_masked(inner, paths, depth + 1) != inner)
