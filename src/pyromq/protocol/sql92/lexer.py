"""The words of a filter expression: names, keywords, literals, signs.

A token is read only when the parser wants it. RocketMQ's parser stops behind the first whole expression and looks at
one token more; what follows that one may be anything.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from pyromq.errors import LocalProtocolError

KEYWORDS: Final = frozenset({"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"})
NAME: Final = "name"
TEXT: Final = "text"
INTEGER: Final = "integer"
FLOAT: Final = "float"
SIGN: Final = "sign"
END: Final = "end"

# Nothing here can be tried in two ways: no text is slow to refuse. A line comment wants its line end, or it is two
# minus signs; a number may stand right before a name; `007` is three numbers.
_EXPONENT: Final = "(?: [eE] [+-]? [0-9]++ )"
_TOKEN: Final = re.compile(
    rf"""
    (?P<skipped> [ \t\n\r\f]++ | --[^\n\r]*+ (?: \r\n | [\n\r]) | /\* (?s:.*?) \*/ )
  | (?P<name> [A-Za-z_$] [A-Za-z0-9_$]*+ )
  | (?P<float> [0-9]++ \. [0-9]*+ {_EXPONENT}? | \. [0-9]++ {_EXPONENT}? | [0-9]++ {_EXPONENT} )
  | (?P<integer> 0 | [1-9][0-9]*+ [lL]? )
  | (?P<text> ' [^']*+ (?: '' [^']*+ )* ' )
  | (?P<sign> <> | <= | >= | [=<>(),+-] )
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """One word: `kind` is a keyword in upper case, a sign as it is written, or one of the names above."""

    kind: str
    text: str
    position: int


def show(text: str, limit: int = 40) -> str:
    """Return a piece of an expression fit for an error: in quotes, on one line, not too long."""
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")


class Lexer:
    """Reads an expression token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def next(self) -> Token:
        """Return the next token, END behind the last; raises LocalProtocolError where none begins."""
        while (found := _TOKEN.match(self._text, self._position)) is not None:
            self._position = found.end()
            if found.lastgroup != "skipped":
                return Token(_kind(found), found.group(), found.start())
        if self._position == len(self._text):
            return Token(END, "", self._position)
        rest = show(self._text[self._position :])
        raise LocalProtocolError(f"SQL92: nothing known begins at character {self._position + 1}: {rest}")


def _kind(found: re.Match[str]) -> str:
    text, kind = found.group(), found.lastgroup
    if kind == NAME:
        word = text.upper()
        return word if word in KEYWORDS else NAME
    return text if kind == SIGN or kind is None else kind
