"""Filters that need more than the tag: SQL92 expressions and the operator's functions, as the store calls them."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from pyromq.broker.pulls.filter_functions import FilterFunctions, FunctionScan
from pyromq.errors import BrokerError, LocalProtocolError
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.messages.properties import decode_properties
from pyromq.protocol.messages.record import read_properties
from pyromq.protocol.sql92.parser import MAX_LENGTH
from pyromq.protocol.sql92.sql_filter import SqlFilter, compile_sql
from pyromq.protocol.tag_filter import FUNCTION, SQL92
from pyromq.store.read.readable import PropertyFilter

MOST_SCANNED: Final = 800  # as RocketMQ
_LEAST_SCANNED: Final = 8
_BUDGET: Final = 50_000  # parts of expressions in one read, about 20 ms: a long expression looks at fewer messages


class SqlScan:
    """A SQL92 expression, applied to stored properties."""

    __slots__ = ("_matches", "scan_limit")
    reads_bodies: Final = False

    def __init__(self, sql: SqlFilter) -> None:
        self._matches = sql.matches
        self.scan_limit = max(_LEAST_SCANNED, min(MOST_SCANNED, _BUDGET // sql.size))

    def accepts(self, properties: bytes, /) -> bool:
        """Return True if the expression is true for these properties."""
        return self._matches(decode_properties(properties))


Scan = SqlScan | FunctionScan


class PropertyFilters:
    """The filters of this broker besides tags; `by_sql` says whether SQL92 is switched on."""

    def __init__(self, functions: FilterFunctions | None = None, *, by_sql: bool = True) -> None:
        self.functions = functions or FilterFunctions()
        self._by_sql = by_sql

    def find(self, expression_type: str | None, expression: str | None) -> Scan:
        """Return the filter of an expression; raise BrokerError with SUBSCRIPTION_PARSE_FAILED if it is not valid."""
        if not expression:
            raise _parse_failed(f"an expression of type {expression_type} must not be empty")
        if expression_type == FUNCTION:
            return self._function(expression)
        if expression_type != SQL92:
            raise _parse_failed(f"this broker filters by TAG, {SQL92} and {FUNCTION}, not by {expression_type}")
        if len(expression) > MAX_LENGTH:
            raise _parse_failed(f"SQL92: the expression has {len(expression)} characters, the limit is {MAX_LENGTH}")
        found = _compiled(expression)
        if isinstance(found, LocalProtocolError):
            raise _parse_failed(str(found))
        return found

    def check_on(self, expression_type: str | None) -> None:
        """Raise BrokerError if this kind of filter is switched off; functions are on if there are any."""
        if not self._by_sql and expression_type != FUNCTION:
            raise BrokerError(
                f"this broker does not filter by {expression_type}; enablePropertyFilter=true switches it on"
            )

    def _function(self, name: str) -> FunctionScan:
        scan = self.functions.by_name.get(name)
        if scan is None:
            known = ", ".join(self.functions.by_name) or "none"
            raise _parse_failed(f"this broker has no filter function {name!r}; it has {known} (pyromqFilterFunctions)")
        return scan


def accepts_record(scan: PropertyFilter, record: bytes) -> bool:
    """Return True if a filter accepts the message in this record."""
    return scan.accepts(record if scan.reads_bodies else read_properties(record))


@lru_cache(maxsize=256)
def _compiled(expression: str) -> SqlScan | LocalProtocolError:
    # Errors are cached too: a client that keeps asking costs nothing.
    try:
        return SqlScan(compile_sql(expression))
    except LocalProtocolError as error:
        return error


def _parse_failed(reason: str) -> BrokerError:
    return BrokerError(reason, ResponseCode.SUBSCRIPTION_PARSE_FAILED)
