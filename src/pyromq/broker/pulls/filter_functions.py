"""Filter functions: Python functions that the operator installs and that consumers subscribe to by name.

    pyromqFilterFunctions = vip=shop_filters:is_vip;large=shop_filters:is_large

A function gets one message (MessageExt: properties, tags, keys, body …) and returns whether consumers want it. It runs
in the broker's event loop, so a slow one is called for fewer messages in one read. If it raises, the message is
delivered: a consumer can drop what it does not want, but cannot get what was left out. Clients send names, never code.
"""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Final

from pyromq.errors import ConfigError, PyroMQError
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.record import decode_messages

logger = logging.getLogger(__name__)

FilterFunction = Callable[[MessageExt], object]

_MOST_SCANNED: Final = 800  # as for SQL92
_LEAST_SCANNED: Final = 8
_BUDGET: Final = 0.02  # seconds for one read
_WEIGHT: Final = 0.05  # of the latest call in the moving average


class FunctionScan:
    """One function, applied to stored messages."""

    reads_bodies: Final = True

    def __init__(self, name: str, function: FilterFunction) -> None:
        self.name = name
        self.errors = 0
        """How often it raised."""
        self._function = function
        self._seconds = 0.0  # average duration of a call

    @property
    def scan_limit(self) -> int:
        """The most messages to look at in one read; fewer if the function is slow."""
        if self._seconds * _MOST_SCANNED <= _BUDGET:
            return _MOST_SCANNED
        return max(_LEAST_SCANNED, int(_BUDGET / self._seconds))

    def accepts(self, record: bytes) -> bool:
        """Return True if the message in this record is wanted."""
        began = perf_counter()
        try:
            return bool(self._function(decode_messages(record, check_crc=False)[0]))
        except PyroMQError:
            return True  # damaged: the consumer will report it
        except Exception as error:
            self._note(error)
            return True
        finally:
            self._seconds += (perf_counter() - began - self._seconds) * _WEIGHT

    def _note(self, error: Exception) -> None:
        self.errors += 1
        if self.errors == 10 ** (len(str(self.errors)) - 1):  # the 1st, the 10th, the 100th …
            logger.error(
                "filter function %s raised, so its messages are delivered, times=%d: %r",
                *(self.name, self.errors, error),
                exc_info=error if self.errors == 1 else None,
            )


class FilterFunctions:
    """The functions of a broker, by name."""

    def __init__(self, scans: Iterable[FunctionScan] = ()) -> None:
        self.by_name = {scan.name: scan for scan in scans}

    @property
    def errors(self) -> dict[str, int]:
        """How often each function raised; those that never did are left out."""
        return {name: scan.errors for name, scan in self.by_name.items() if scan.errors}

    def figures(self) -> BoundFigures[FilterFunctions]:
        """Return the figures of all functions."""
        return BoundFigures(_FIGURES, lambda: self)


_FIGURES: Final[tuple[Figure[FilterFunctions], ...]] = (
    Figure(
        "filter_function_errors",
        "How often a filter function raised.",
        Kind.COUNTER,
        lambda functions: functions.errors,
        label="function",
    ),
)


def load_functions(places: Mapping[str, str]) -> FilterFunctions:
    """Import functions, given as `module:function` by name; raise ConfigError that names one that cannot be used."""
    return FilterFunctions(FunctionScan(name, _load(name, place)) for name, place in places.items())


def _load(name: str, place: str) -> FilterFunction:
    module_name, _, path = place.partition(":")
    try:
        found: object = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # an operator's module may raise anything when it is imported
        raise ConfigError(f"pyromqFilterFunctions: {name}={place}: {type(error).__name__}: {error}") from error
    if not callable(found) or inspect.iscoroutinefunction(found):
        raise ConfigError(f"pyromqFilterFunctions: {name}={place} is not a plain function")
    return found
