"""Values of options, from text: each function returns one, or raises ValueError or PyroMQError saying what it expects.

Reads and writes share them. Spark hands keys over in lower case and values as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from pyromq.client.address import parse_addresses
from pyromq.errors import ConfigError, NotSupported, PyroMQError
from pyromq.protocol.names import check_group

Parsers = Mapping[str, tuple[str, Callable[[str], object]]]
"""Option -> field and how to read it."""


def known(given: Mapping[str, str], names: Mapping[str, str], later: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return options with their own names, found in `names` by those in lower case; an empty name is passed over.

    Raises for an option that is unknown, or that belongs to a part that comes `later`.
    """
    found = []
    for key, text in given.items():
        name = names.get(key.lower())
        if name is None:
            raise ConfigError(f"unknown option {key!r}; {_nearest(key, names)}")
        if name in later:
            raise NotSupported(f"option {name}: {later[name]}, not in this version")
        if name:
            found.append((name, text.strip()))
    return found


def _nearest(key: str, names: Mapping[str, str]) -> str:
    named = {lower: name for lower, name in names.items() if name}
    near = get_close_matches(key.lower(), named, n=1)
    return f"did you mean {named[near[0]]!r}?" if near else f"known are {', '.join(sorted(set(named.values())))}"


def parse_all(texts: Mapping[str, str], parsers: Parsers) -> dict[str, Any]:
    """Return the fields that these options set; raise ConfigError, which names the option, for a wrong value."""
    return {field: _parse(name, texts[name], parse) for name, (field, parse) in parsers.items() if name in texts}


def _parse(name: str, text: str, parse: Callable[[str], object]) -> object:
    try:
        return parse(text)
    except (ValueError, PyroMQError) as error:
        raise ConfigError(f"option {name}: {error}") from None


def name_servers(text: str) -> str:
    return ";".join(parse_addresses(text))


def group(text: str) -> str:
    check_group(text)
    return text


def count(text: str) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) < 1:
        raise ValueError(f"expected a number from 1, not {text!r}")
    return int(text)


def truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"expected true or false, not {text!r}")
    return text.lower() == "true"


def _scaled(units: Mapping[str, float], example: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.lower())
        value = float(found[1]) * units.get(found[2], 0) if found else 0
        if not value:
            raise ValueError(f"expected a value such as {example}, not {text!r}")
        return value

    return parse


seconds = _scaled({"": 1, "ms": 0.001, "s": 1, "m": 60, "h": 3600}, "500ms, 10s or 2m")
size = _scaled({"": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20}, "500k or 8m")
