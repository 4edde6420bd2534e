"""Which release of PyroMQ this is: what clients and servers tell each other, and people."""

from __future__ import annotations

from functools import cache


@cache
def release() -> str:
    """Return the release that is installed; finding out takes some milliseconds, once."""
    from importlib.metadata import PackageNotFoundError, version  # as slow to import as all the rest

    try:
        return version("pyromq")
    except PackageNotFoundError:
        return "0+unknown"  # run from a source tree that was never installed
