"""Filters by property as a store asks them: compiled expressions, kept for the next pull that brings the same one."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from pyromq.errors import BrokerError, LocalProtocolError
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.filter import SQL92
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.sql92.filter import SqlFilter, compile_sql

MOST_SCANNED: Final = 800  # as RocketMQ
_LEAST_SCANNED: Final = 8
_BUDGET: Final = 50_000  # parts of expressions in one read, some 20 ms: a long expression looks at fewer messages


class SqlScan:
    """A SQL92 expression over stored properties."""

    __slots__ = ("_matches", "scan_limit")

    def __init__(self, sql: SqlFilter) -> None:
        self._matches = sql.matches
        self.scan_limit = max(_LEAST_SCANNED, min(MOST_SCANNED, _BUDGET // sql.size))

    def accepts(self, properties: bytes) -> bool:
        """Tell whether the expression is true for these properties."""
        return self._matches(decode_properties(properties))


def compiled(expression_type: str | None, expression: str | None) -> SqlScan:
    """Return an expression ready for use; raise BrokerError with SUBSCRIPTION_PARSE_FAILED where it is none."""
    if not expression:
        raise _parse_failed(f"an expression of type {expression_type} may not be empty")
    if expression_type != SQL92:
        raise _parse_failed(f"this broker filters by TAG and {SQL92}, not by {expression_type}")
    found = _compiled(expression)
    if isinstance(found, LocalProtocolError):
        raise _parse_failed(str(found))
    return found


@lru_cache(maxsize=256)
def _compiled(expression: str) -> SqlScan | LocalProtocolError:
    # What is wrong is remembered too: a client that does not stop asking costs nothing.
    try:
        return SqlScan(compile_sql(expression))
    except LocalProtocolError as error:
        return error


def _parse_failed(reason: str) -> BrokerError:
    return BrokerError(reason, ResponseCode.SUBSCRIPTION_PARSE_FAILED)


def switched_off(expression_type: str | None) -> BrokerError:
    """Return what a broker says that does not filter by property."""
    return BrokerError(f"this broker does not filter by {expression_type}; enablePropertyFilter=true switches it on")
