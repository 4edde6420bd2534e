"""Values of a filter expression, read and compared as in Java, so that results are those of Apache's broker."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import copysign, inf
from typing import Final

from pyromq.protocol.sql92.tree import Number, NumberKind
from pyromq.protocol.tag_filter import JAVA_BLANKS

Value = str | bool | Number
"""An operand other than NULL: a property or literal text, the result of a condition, a literal number."""

_LONGEST: Final = 4_000  # characters of a property that is read as a number; longer ones are an attack
# Java accepts any decimal digit of the basic plane in integers, but only ASCII digits in doubles.
_INTEGER: Final = re.compile(r"[+-]?[^\D\U00010000-\U0010FFFF]++")
_DOUBLE: Final = re.compile(r"([+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[fFdD]?|[+-]?(?:NaN|Infinity)")
_HEX_DOUBLE: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]++\.?|[0-9a-fA-F]*+\.[0-9a-fA-F]++))[pP]([+-]?)0*+([0-9]*+)(?<=[0-9])[fFdD]?"
)
_EXPONENT_DIGITS: Final = 9  # of a hexadecimal number; Python accepts no more, and more make no difference


class Incomparable(Exception):
    """Two values cannot be compared: the message does not match, whatever the rest of the expression says."""


def read_int32(text: str) -> int:
    """Read a text as Java's Integer.valueOf does."""
    return _integer(text, 1 << 31)


def read_int64(text: str) -> int:
    """Read a text as Java's Long.valueOf does."""
    return _integer(text, 1 << 63)


def _integer(text: str, limit: int) -> int:
    plain = len(text) < 10 and text.isdigit() and text.isascii()  # fast path for nearly all numbers
    if not plain and (len(text) > _LONGEST or _INTEGER.fullmatch(text) is None):
        raise Incomparable
    number = int(text)
    if not -limit <= number < limit:
        raise Incomparable
    return number


def read_double(text: str) -> float:
    """Read a text as Java's Double.valueOf does."""
    trimmed = text.strip(JAVA_BLANKS)
    if len(trimmed) > _LONGEST:
        raise Incomparable
    if found := _DOUBLE.fullmatch(trimmed):
        return float(found[1] or trimmed)
    if found := _HEX_DOUBLE.fullmatch(trimmed):
        return _hexadecimal(*found.groups())
    raise Incomparable


def _hexadecimal(mantissa: str, sign: str, exponent: str) -> float:
    try:
        return float.fromhex(f"{mantissa}p{sign}{exponent[:_EXPONENT_DIGITS] or 0}")
    except OverflowError:
        return -inf if mantissa.startswith("-") else inf


READERS: Final[dict[NumberKind, Callable[[str], int | float]]] = {
    NumberKind.INT32: read_int32,
    NumberKind.INT64: read_int64,
    NumberKind.DOUBLE: read_double,
}


def is_true(text: str) -> bool:
    """Read a text as Java's Boolean.valueOf does: anything but `true` is false."""
    return text.lower() == "true"


def order(left: Value, right: Value) -> int:
    """Return a number below, at or above 0 if `left` is less than, equal to or greater than `right`.

    A text is read as the type of the other operand. Other mixed types count as less. Two texts are only compared for
    equality. Raises Incomparable.
    """
    if isinstance(left, str):
        return _order_text(left, right)
    if isinstance(left, bool):
        return _order_truth(left, right)
    if isinstance(right, bool):
        return -1
    if isinstance(right, str):
        right = Number(READERS[left.kind](right), left.kind)
    return order_numbers(left, right)


def _order_text(left: str, right: Value) -> int:
    if isinstance(right, str):
        return 0 if left == right else -1
    if isinstance(right, bool):
        return is_true(left) - right
    return order_numbers(Number(READERS[right.kind](left), right.kind), right)


def _order_truth(left: bool, right: Value) -> int:
    if isinstance(right, str):
        raise Incomparable  # Apache's broker fails here too: the property must be on the left
    return left - right if isinstance(right, bool) else -1


def order_numbers(left: Number, right: Number) -> int:
    """Order two numbers, as doubles if one of them is one."""
    if NumberKind.DOUBLE in (left.kind, right.kind):
        return order_doubles(float(left.value), float(right.value))
    return (left.value > right.value) - (left.value < right.value)


def order_doubles(left: float, right: float) -> int:
    """Order two doubles as Java's Double.compareTo does: -0.0 before 0.0, NaN last and equal to itself."""
    if left < right:
        return -1
    if left > right:
        return 1
    return _rank(left) - _rank(right)


def _rank(number: float) -> int:
    """Return the rank of a number among those that Python orders as neither less nor greater."""
    if number != number:
        return 2
    return int(copysign(1.0, number)) if number == 0 else 0
