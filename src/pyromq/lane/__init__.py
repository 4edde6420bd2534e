"""The lane: what plain messages take from the socket to the log and back, written twice.

    plain    in Python: it is always there, and says what is right
    native   the same in C, for speed: built where a C compiler is there, one module `c/_NAME.c` for each part

Both give the same bytes; tests compare them. `PYROMQ_LANE=plain` in the environment of a server chooses the plain one.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import Final

VARIABLE: Final = "PYROMQ_LANE"
PLAIN: Final = "plain"
PARTS: Final = ("sends", "batches", "pulls", "records", "copies", "keys")
"""What can be native."""


def native(part: str) -> ModuleType | None:
    """Return the native module of a part; None if it was not built, or the plain lane is chosen."""
    if os.environ.get(VARIABLE) == PLAIN:
        return None
    try:
        return import_module(f"pyromq.lane._{part}")
    except ImportError:
        return None


def lane_text() -> str:
    """Say which lane runs: `plain`, or `native` with the parts that are, such as `native (sends)`."""
    parts = [part for part in PARTS if native(part) is not None]
    return f"native ({', '.join(parts)})" if parts else PLAIN
