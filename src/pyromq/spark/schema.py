"""The columns of format "pyromq": names and Spark types. Imports little: every planning process of Spark loads it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from pyromq.errors import ConfigError

_DEFAULT = {
    "topic": "string",
    "broker_name": "string",
    "queue_id": "int",
    "queue_offset": "bigint",
    "message_id": "string",
    "keys": "array<string>",
    "tags": "string",
    "body": "binary",
    "properties": "map<string,string>",
    "born_timestamp": "timestamp",
    "store_timestamp": "timestamp",
    "reconsume_times": "int",
}
_ON_REQUEST = {
    "physical_offset": "bigint",
    "offset_message_id": "string",
    "flag": "int",
    "sys_flag": "int",
    "body_crc": "int",
    "store_size": "int",
    "born_host": "string",
    "store_host": "string",
    "prepared_transaction_offset": "bigint",
}
COLUMN_TYPES: dict[str, str] = _DEFAULT | _ON_REQUEST
DEFAULT_COLUMNS: tuple[str, ...] = tuple(_DEFAULT)


def check_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names as a tuple; raise ConfigError for an unknown or repeated name."""
    names = tuple(names)
    if not names:
        raise ConfigError(f"no column chosen; there are {', '.join(COLUMN_TYPES)}")
    for name in names:
        if name not in COLUMN_TYPES:
            near = get_close_matches(name, COLUMN_TYPES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COLUMN_TYPES)}"
            raise ConfigError(f"unknown column {name!r}; {hint}")
        if names.count(name) > 1:
            raise ConfigError(f"column {name!r} is named twice")
    return names


def ddl(columns: Iterable[str], *, properties_as_text: bool = False) -> str:
    """Return the schema of the columns as Spark DDL; all are nullable, as Spark's check expects."""
    types = COLUMN_TYPES | {"properties": "string"} if properties_as_text else COLUMN_TYPES
    return ", ".join(f"{name} {types[name]}" for name in columns)
