"""Option values parsed from text: each function returns a value, or raises ValueError or PyroMQError with a hint.

Reads and writes share them. Spark passes keys in lower case and values as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from pyromq.client.net.address import parse_addresses
from pyromq.errors import ConfigError, PyroMQError
from pyromq.protocol.acl import Credentials
from pyromq.protocol.names import check_group
from pyromq.remoting.tls.client_tls import Tls

Parsers = Mapping[str, tuple[str, Callable[[str], object]]]
"""Option name -> field name and parser."""

_TLS_FIELDS = {
    "tlsCaFile": "ca_file",
    "tlsCertFile": "cert_file",
    "tlsKeyFile": "key_file",
    "tlsKeyPassword": "key_password",
}
ACCOUNT = ("accessKey", "secretKey")
TLS = ("tls", "tlsVerify", *_TLS_FIELDS)

_OF_TABLES = "Spark gives no Python source the options of a table: make a temporary view, or add WITH (…) to each query"
_OF_KAFKA = {"kafka.bootstrap.servers": "namesrv", "kafka.group.id": "group"}
_MOST = (1 << 31) - 1
MOST_OFFSETS = (1 << 63) - 1


def known(given: Mapping[str, str], names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return options under their proper names, which `names` maps from lower case; an empty name is ignored.

    Raises ConfigError for an unknown option.
    """
    found = []
    if "provider" in given:  # CREATE TABLE without columns asks for a schema and passes this
        raise ConfigError(_OF_TABLES)
    for key, text in given.items():
        name = names.get(key.lower())
        if name is None:
            raise ConfigError(f"unknown option {key!r}; {_nearest(key, names)}")
        if name:
            found.append((name, text.strip()))
    return found


def _nearest(key: str, names: Mapping[str, str]) -> str:
    named = {lower: name for lower, name in names.items() if name}
    of_kafka = _OF_KAFKA.get(key.lower(), "")
    near = [of_kafka] if of_kafka in named else get_close_matches(key.lower(), named, n=1)
    return f"did you mean {named[near[0]]!r}?" if near else f"known are {', '.join(sorted(set(named.values())))}"


def parse_all(texts: Mapping[str, str], parsers: Parsers) -> dict[str, Any]:
    """Return the fields that the options set; raise ConfigError, naming the option, for a wrong value."""
    return {field: _parse(name, texts[name], parse) for name, (field, parse) in parsers.items() if name in texts}


def _parse(name: str, text: str, parse: Callable[[str], object]) -> object:
    try:
        return parse(text)
    except (ValueError, PyroMQError) as error:
        raise ConfigError(f"option {name}: {error}") from None


def credentials(texts: Mapping[str, str]) -> Credentials | None:
    """Return the account in the options, or None if there is none; raise ConfigError if only one key is given."""
    access_key, secret_key = (texts.get(name) for name in ACCOUNT)
    if access_key and secret_key:
        return Credentials(access_key, secret_key)
    if access_key is None and secret_key is None:
        return None
    raise ConfigError(f"options {ACCOUNT[0]} and {ACCOUNT[1]} belong together: set both or neither")


def tls(texts: Mapping[str, str]) -> bool | Tls | None:
    """Return how the options want connections encrypted; None if they say nothing: then the environment decides."""
    files: dict[str, Any] = {field: texts[name] for name, field in _TLS_FIELDS.items() if texts.get(name)}
    verify = _parse("tlsVerify", texts.get("tlsVerify", "true"), truth)
    if "tls" in texts and not _parse("tls", texts["tls"], truth):
        return False
    return Tls(**files, verify=bool(verify)) if any(name in texts for name in TLS) else None


def tls_options(chosen: Tls | None) -> dict[str, str]:
    """Return the options that say the same."""
    if chosen is None:
        return {}
    files = {name: getattr(chosen, field) for name, field in _TLS_FIELDS.items() if getattr(chosen, field)}
    return {"tls": "true", **files, **({} if chosen.verify else {"tlsVerify": "false"})}


def without_name_server(texts: Mapping[str, str]) -> str:
    """Return the error text for a missing namesrv; if there are no options at all, it explains why."""
    text = "option namesrv is missing: host:port of a name server, several separated by ';'"
    return text if texts else f"{text}; {_OF_TABLES}"


def name_servers(text: str) -> str:
    return ";".join(parse_addresses(text))


def group(text: str) -> str:
    check_group(text)
    return text


def count(text: str, most: int = _MOST) -> int:
    if not re.fullmatch(r"[0-9]+", text) or int(text) < 1:
        raise ValueError(f"expected a number from 1, not {text!r}")
    if int(text) > most:
        raise ValueError(f"expected a number up to {most}, not {text!r}")
    return int(text)


def offset_count(text: str) -> int:
    return count(text, MOST_OFFSETS)


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
