"""Reads what Java's JSON reader accepts beyond the standard.

Keys may be numbers, objects or bare names, strings may be in single quotes, a comma may precede a closing bracket, and
`{"$ref":"$.path"}` stands for the object at that path, which comes earlier in the same text.
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

from pyromq.errors import MalformedHeader

MAX_DEPTH: Final = 64
MAX_REFERRED_VALUES: Final = 10_000
"""References to objects with references multiply, so a short text could stand for billions of values."""

_TOKEN = re.compile(
    r"""[ \t\r\n\f\b\ufeff]*(?:
        (?P<mark> [{}\[\],:] )
      | (?P<string> "(?:[^"\\]++|\\.)*+" | '(?:[^'\\]++|\\.)*+' )
      | (?P<integer> -?[0-9]{1,19}(?![0-9.eE]) )
      | (?P<float> -?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][-+]?[0-9]{1,4})?(?![0-9.]) )
      | (?P<name> [A-Za-z_$][A-Za-z0-9_$.-]* )
      | (?P<end> \Z )
    )""",
    re.VERBOSE | re.DOTALL,
)
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}


class FrozenKey(tuple[tuple[str, Any], ...]):
    """An object used as a key: its members as pairs, in the order of the text."""

    __slots__ = ()


def read_dialect(text: str) -> Any:
    """Read one value; raise MalformedHeader if the text is not a value or is nested too deeply."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._kind = ""
        self._found = ""

    def read(self) -> Any:
        self._advance()
        value = self._value(0)
        if self._kind != "end":
            self._fail("the end")
        return value

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._position)
        if match is None or match.lastgroup is None:
            raise MalformedHeader(f"JSON cannot be read at character {self._position}")
        self._kind, self._found, self._position = match.lastgroup, match.group(match.lastgroup), match.end()

    def _take(self, mark: str) -> bool:
        if self._found != mark or self._kind != "mark":
            return False
        self._advance()
        return True

    def _fail(self, wanted: str) -> NoReturn:
        found = self._found[:20] or "the end"
        raise MalformedHeader(f"JSON has {found!r} before character {self._position} where {wanted} was expected")

    def _value(self, depth: int) -> Any:
        if self._take("{"):
            return dict(self._members(depth + 1))
        if self._take("["):
            return self._items(depth + 1)
        value = self._scalar()
        self._advance()
        return value

    def _scalar(self) -> Any:
        kind, found = self._kind, self._found
        if kind == "string":
            return _unquote(found)
        if kind == "integer":
            return int(found)
        if kind == "float":
            return float(found)
        if kind != "name" or found not in _CONSTANTS:
            self._fail("a value")
        return _CONSTANTS[found]

    def _items(self, depth: int) -> list[Any]:
        _check_depth(depth)
        items = []
        while not self._take("]"):
            items.append(self._value(depth))
            if not self._take(",") and self._found != "]":
                self._fail("a comma or ]")
        return items

    def _members(self, depth: int) -> list[tuple[Any, Any]]:
        _check_depth(depth)
        members = []
        while not self._take("}"):
            key = self._key(depth)
            if not self._take(":"):
                self._fail("a colon")
            members.append((key, self._value(depth)))
            if not self._take(",") and self._found != "}":
                self._fail("a comma or }")
        return members

    def _key(self, depth: int) -> str | FrozenKey:
        if self._take("{"):
            return _frozen(self._members(depth + 1))
        if self._kind not in ("string", "integer", "name"):
            self._fail("a key")
        key = _unquote(self._found) if self._kind == "string" else self._found
        self._advance()
        return key


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise MalformedHeader(f"JSON is nested deeper than {MAX_DEPTH}")


def _frozen(members: list[tuple[Any, Any]]) -> FrozenKey:
    key = FrozenKey(members)
    try:
        hash(key)
    except TypeError:
        raise MalformedHeader("an object used as a key contains lists or objects") from None
    return key


def _unquote(token: str) -> str:
    text = token[1:-1]
    if "\\" not in text:
        return text
    # Escapes may encode surrogate halves: join the pairs and replace halves that remain.
    return _ESCAPE.sub(_unescape, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _ESCAPED.get(match[3], match[3])


def resolve_references(root: Any) -> Any:
    """Replace references by copies of what they refer to.

    Java writes an object or list that it has written before as a reference to it. So a reference to anything else is
    malformed: to a part that comes later or that it stands in, to a text or number, to another reference.
    """
    return _Resolver(root).resolve(root, 0)


class _Resolver:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._written: set[int] = set()
        self._referred = 0

    def resolve(self, value: Any, depth: int, in_reference: bool = False) -> Any:
        if not isinstance(value, dict | list):
            return value
        if depth > MAX_DEPTH:
            raise MalformedHeader("references of JSON are nested too deeply")
        if in_reference:
            self._count(1 + len(value))
        resolved: Any
        if isinstance(value, list):
            resolved = [self.resolve(item, depth + 1, in_reference) for item in value]
        elif isinstance(path := value.get("$ref"), str) and len(value) == 1:
            self._count(len(path))
            return self.resolve(self._look_up(path), depth + 1, in_reference=True)
        else:
            resolved = {key: self.resolve(member, depth + 1, in_reference) for key, member in value.items()}
        self._written.add(id(value))
        return resolved

    def _count(self, values: int) -> None:
        self._referred += values
        if self._referred > MAX_REFERRED_VALUES:
            raise MalformedHeader("JSON has too many references")

    def _look_up(self, path: str) -> Any:
        value = self._root
        try:
            for step in _steps(path):
                value = value[int(step) if isinstance(value, list) else step]
        except (LookupError, TypeError, ValueError):
            raise MalformedHeader(f"JSON refers to {path[:60]!r}, which does not exist") from None
        if id(value) not in self._written:
            raise MalformedHeader(f"JSON refers to {path[:60]!r}, which is no object or list before it")
        return value


_STEP = re.compile(r"""\.((?:[^.\[\]\\]|\\.)+)|\[([0-9]{1,9})\]|\[(?:"([^"]*)"|'([^']*)')\]""")


def _steps(path: str) -> list[str]:
    steps: list[str] = []
    position = 1
    while path.startswith("$") and position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            break
        steps.append(re.sub(r"\\(.)", r"\1", match[match.lastindex or 0]))
        position = match.end()
    if position != len(path):
        raise LookupError(path)
    return steps
