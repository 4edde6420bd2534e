"""What the store imports on first use, for a process that serves a broker."""

from __future__ import annotations

from importlib import import_module
from typing import Final

_IMPORTED_LATE: Final = (
    "numpy",
    "numpy.ma",  # numpy imports it when it first looks for what is unique
    "pyromq.store.index.chain_scan",
    "pyromq.store.index.index_writer",
    "pyromq.store.read.merged_reader",
    "pyromq.store.read.record_columns",
)


def import_readers() -> None:
    """Import what the store imports on first use, because that takes a tenth of a second: no request shall wait for it.

    For a process that serves a broker; a tool that opens a store for a moment does without.
    """
    for module in _IMPORTED_LATE:
        import_module(module)
