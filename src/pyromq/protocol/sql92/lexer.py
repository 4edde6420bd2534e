"""The tokens of a filter expression: names, keywords, literals, signs.

A token is read only when the parser asks for it. RocketMQ's parser stops after the first whole expression and reads one
more token; anything may follow that one.
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
PATH: Final = "path"
END: Final = "end"

# Nothing here can match in two ways, so no text is slow to reject. A line comment needs its line end, otherwise it is
# two minus signs. A number may directly precede a name. `007` is three numbers.
_EXPONENT: Final = "(?: [eE] [+-]? [0-9]++ )"
_TOKEN_TEXT: Final = rf"""
    (?P<skipped> [ \t\n\r\f]++ | --[^\n\r]*+ (?: \r\n | [\n\r]) | /\* (?s:.*?) \*/ )
  | (?P<name> [A-Za-z_$] [A-Za-z0-9_$]*+ )
  | (?P<float> [0-9]++ \. [0-9]*+ {_EXPONENT}? | \. [0-9]++ {_EXPONENT}? | [0-9]++ {_EXPONENT} )
  | (?P<integer> 0 | [1-9][0-9]*+ [lL]? )
  | (?P<text> ' [^']*+ (?: '' [^']*+ )* ' )
  | (?P<sign> <> | <= | >= | [=<>(),+-] )
    """
_TOKEN: Final = re.compile(_TOKEN_TEXT, re.VERBOSE)
# A field of a JSON body: body.amount, body.items.0.sku, body."order-id". Brokers do not know it.
_STEP_TEXT: Final = r'\. (?: [\w$]++ | "[^"]++" )'
_TOKEN_OR_PATH: Final = re.compile(rf"(?P<path> body (?: {_STEP_TEXT} )++ ) | {_TOKEN_TEXT}", re.VERBOSE)
_STEP: Final = re.compile(r'\.(?:"([^"]+)"|([\w$]+))')


class Token(NamedTuple):
    """One token: `kind` is a keyword in upper case, a sign as written, or one of the constants above."""

    kind: str
    text: str
    position: int


def show(text: str, limit: int = 40) -> str:
    """Return a piece of an expression for an error text: quoted, on one line, shortened."""
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")


def steps_of(path: str) -> tuple[str, ...]:
    """Return the names that lead to a field of the body."""
    return tuple(quoted or plain for quoted, plain in _STEP.findall(path))


class Lexer:
    """Reads an expression token by token; `paths` says whether fields of the body may be named."""

    def __init__(self, text: str, *, paths: bool = False) -> None:
        self._text = text
        self._match = (_TOKEN_OR_PATH if paths else _TOKEN).match
        self._position = 0

    def next(self) -> Token:
        """Return the next token, END after the last; raise LocalProtocolError if none matches."""
        while (found := self._match(self._text, self._position)) is not None:
            self._position = found.end()
            if found.lastgroup != "skipped":
                return Token(_kind(found), found.group(), found.start())
        if self._position == len(self._text):
            return Token(END, "", self._position)
        rest = show(self._text[self._position :])
        raise LocalProtocolError(f"SQL92: unknown token at character {self._position + 1}: {rest}")


def _kind(found: re.Match[str]) -> str:
    text, kind = found.group(), found.lastgroup
    if kind == NAME:
        word = text.upper()
        return word if word in KEYWORDS else NAME
    return text if kind == SIGN or kind is None else kind
