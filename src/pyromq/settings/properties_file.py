"""The syntax of broker.conf and namesrv.conf: Java's properties files.

One logical line is `key=value`, `key: value` or `key value`; `#` and `!` begin comments, a backslash at the end of a
line continues it, and `\\t \\n \\r \\f \\uXXXX` are escapes. Trailing blanks are dropped: Apache keeps them, and then
silently runs with the default because `SLAVE ` is not a role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pyromq.errors import ConfigError

_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*[=:\s]")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_NAMED_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertyLine(NamedTuple):
    """One setting of a file, and the number of its first line."""

    line: int
    key: str
    value: str


def parse_properties(text: str) -> dict[str, str]:
    """Return the settings of a properties file; the last of several equal keys wins."""
    return {key: value for _, key, value in property_lines(text)}


def property_lines(text: str) -> Iterator[PropertyLine]:
    """Yield the settings of a properties file in their order."""
    for number, line in _logical_lines(text):
        yield PropertyLine(number, *_split(line))


def read_properties_file(path: Path) -> str:
    """Return the text of a file; raise ConfigError if it cannot be read.

    A file that is not UTF-8 is read as ISO 8859-1, as Java does: many have comments in another encoding.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    lines = enumerate(re.split(r"\r\n|\r|\n", text), 1)
    for number, line in lines:
        part = line.lstrip()
        if not part or part[0] in "#!":
            continue
        parts = []
        while _continues(part):
            parts.append(part[:-1])
            part = next(lines, (0, ""))[1].lstrip()
        yield number, "".join([*parts, part])


def _continues(line: str) -> bool:
    """Return True if a line ends with a backslash that is not itself escaped."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    found = _SEPARATOR.search(line)
    if found is None:
        return _unescape(line), ""
    key, rest = line[: found.end() - 1], line[found.end() - 1 :].lstrip()
    if rest[:1] in ("=", ":"):
        rest = rest[1:]
    return _unescape(key), _unescape(rest.strip())


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escaped = match[1]
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _NAMED_ESCAPES.get(escaped, escaped)

    return _ESCAPE.sub(replace, text)
