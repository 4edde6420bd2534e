"""The syntax of broker.conf: Java's properties files.

One logical line is `key=value`, `key: value` or `key value`; `#` and `!` begin comments, a backslash at the end of a
line continues it, and `\\t \\n \\r \\f \\uXXXX` are escapes. Trailing blanks are dropped: Apache keeps them, and then
silently runs with the default because `SLAVE ` is not a role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*[=:\s]")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_NAMED_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Return the settings of a properties file; the last of several equal keys wins."""
    return dict(_split(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[str]:
    lines = iter(re.split(r"\r\n|\r|\n", text))
    for line in lines:
        whole = line.lstrip()
        if not whole or whole[0] in "#!":
            continue
        while _continues(whole):
            whole = whole[:-1] + next(lines, "").lstrip()
        yield whole


def _continues(line: str) -> bool:
    """Tell whether a line ends with a backslash that is not itself escaped."""
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
