"""Address patterns of white lists, as RocketMQ 4.9 reads them.

    *  *.*.*.*            every address
    10.1.2.3              this one
    10.1.2.3,10.1.2.4     these
    10.1.2.{3,4}          these last parts
    10.1.2.*  10.1.3-5.*  a range in the first part that is * or has -; the parts behind it are not looked at

IPv6 addresses have the same forms, with colons and hexadecimal parts.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import TypeAlias

Matcher: TypeAlias = Callable[[str], bool]

_RANGE = re.compile(r"([0-9a-f]+)-([0-9a-f]+)")
_BRACED = re.compile(r"(.*[.:])\{([^{}]+)\}")


def matcher(pattern: str) -> Matcher:
    """Return a function that says whether an address matches; an empty pattern matches none. Raise ValueError."""
    pattern = pattern.strip().lower()
    if not pattern:
        return lambda address: False
    if pattern in ("*", "*.*.*.*", ":".join("*" * 8)):
        return lambda address: True
    if braced := _BRACED.fullmatch(pattern):
        return _one_of([braced[1] + last.strip() for last in braced[2].split(",")])
    if "," in pattern:
        return _one_of(pattern.split(","))
    if "*" in pattern or "-" in pattern:
        return _in_range(pattern)
    return _one_of([pattern])


def any_matcher(patterns: list[str]) -> Matcher:
    """Return a function that says whether an address matches one of several patterns; raise ValueError."""
    matchers = [matcher(pattern) for pattern in patterns]
    return lambda address: any(matches(address) for matches in matchers)


def _one_of(addresses: list[str]) -> Matcher:
    known = {_parse(address) for address in addresses}

    def matches(address: str) -> bool:
        try:
            return _parse(address) in known
        except ValueError:
            return False

    return matches


def _parse(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address.strip())
    except ValueError:
        raise ValueError(f"{address.strip()!r} is no address") from None
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).exploded


def _in_range(pattern: str) -> Matcher:
    separator, count, base = (":", 8, 16) if ":" in pattern else (".", 4, 10)
    parts = pattern.split(separator)
    where = next(index for index, part in enumerate(parts) if part == "*" or "-" in part)
    if len(parts) != count or where == 0:
        raise ValueError(f"{pattern!r} is no pattern of addresses")
    try:
        fixed = [int(part, base) for part in parts[:where]]
        low, high = _bounds(parts[where], base)
        for part in parts[where + 1 :]:
            _bounds(part, base)
    except ValueError:
        raise ValueError(f"{pattern!r} is no pattern of addresses") from None

    def matches(address: str) -> bool:
        try:
            numbers = [int(part, base) for part in _parse(address).split(separator)]
        except ValueError:
            return False
        return len(numbers) == count and numbers[:where] == fixed and low <= numbers[where] <= high

    return matches


def _bounds(part: str, base: int) -> tuple[int, int]:
    most = 0xFF if base == 10 else 0xFFFF
    if part == "*":
        return 0, most
    found = _RANGE.fullmatch(part)
    low, high = (int(found[1], base), int(found[2], base)) if found else (int(part, base), int(part, base))
    if not 0 <= low <= high <= most:
        raise ValueError(part)
    return low, high
