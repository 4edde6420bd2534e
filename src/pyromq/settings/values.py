"""Readers of values: each turns the text of a setting into a value, or raises ValueError that says what is expected.

The text of an error follows the key: `listenPort must be between 0 and 65535, not 99999`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,30}")


def integer(low: int, high: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from `low` to `high`."""

    def read(text: str) -> int:
        if not _WHOLE_NUMBER.fullmatch(text):
            raise ValueError(f"must be a whole number, not {text!r}")
        number = int(text)
        if not low <= number <= high:
            raise ValueError(f"must be between {low} and {high}, not {number}")
        return number

    return read


def boolean(text: str) -> bool:
    """Read `true` or `false`. Apache takes every other word for false; here it is an error."""
    word = text.lower()
    if word not in ("true", "false"):
        raise ValueError(f"must be true or false, not {text!r}")
    return word == "true"


def show_boolean(value: bool) -> str:
    """Write `true` or `false`."""
    return "true" if value else "false"


def choice(*words: str) -> Callable[[str], str]:
    """Return a reader that accepts one of `words`."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"must be {' or '.join(words)}, not {text!r}")
        return text

    return read


def word(value: str) -> str:
    """Read a text that may not be empty."""
    if not value:
        raise ValueError("must not be empty")
    return value


def addresses(value: str) -> tuple[str, ...]:
    """Read `host:port;host:port`."""
    found = tuple(part.strip() for part in value.split(";") if part.strip())
    for address in found:
        host, _, port = address.rpartition(":")
        if "," in address:
            raise ValueError(f"must be host:port;host:port, with semicolons instead of the commas in {address!r}")
        if not host or not _WHOLE_NUMBER.fullmatch(port) or not 0 < int(port) < 65536:
            raise ValueError(f"must be host:port;host:port, and {address!r} is not host:port")
    return found


def hours(value: str) -> tuple[int, ...]:
    """Read hours of the day, such as `04` or `04;16`."""
    try:
        found = tuple(int(part) for part in value.split(";") if part.strip())
    except ValueError:
        found = ()
    if not found or not all(0 <= hour < 24 for hour in found):
        raise ValueError(f"must be hours such as 04 or 04;16, not {value!r}")
    return found


def show_hours(value: tuple[int, ...]) -> str:
    """Write hours of the day."""
    return ";".join(f"{hour:02d}" for hour in value)


def ratio(value: str) -> float:
    """Read a part of the whole, such as `0.85`."""
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"must be a ratio such as 0.85, not {value!r}") from None
    if not 0.1 <= number <= 1:
        raise ValueError(f"must be between 0.1 and 1, not {value}")
    return number


def at_most(high: int) -> Callable[[str], int]:
    """Return a reader of positive numbers that takes a larger one for the highest: what it bounds is promised."""
    read_integer = integer(1, 2**31 - 1)
    return lambda value: min(read_integer(value), high)


def path(value: str) -> Path:
    """Read a path."""
    return Path(word(value))


def single_directory(value: str) -> Path:
    """Read the path of one directory; Apache would take several, separated by commas."""
    if "," in value:
        raise ValueError("must be one directory: several commit log directories are not supported")
    return path(value)


def seconds(low: int, high: int) -> Callable[[str], float]:
    """Return a reader of milliseconds that gives seconds, as the rest of the code counts time."""
    read_integer = integer(low, high)
    return lambda value: read_integer(value) / 1000


def show_milliseconds(value: float) -> str:
    """Write seconds as milliseconds."""
    return str(round(value * 1000))
