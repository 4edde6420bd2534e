"""The table of behaviours, and a process that misbehaves.

python -m tests.faults.hostile.behaviours NAME BROKER NAMESRV HA SECONDS
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Final

from pyromq.remoting.limits import raise_descriptor_limit
from tests.faults.hostile import connections, names, requests
from tests.faults.hostile.target import Target

Behaviour = Callable[[Target], None]


def _of(module: ModuleType) -> dict[str, Behaviour]:
    """Return the behaviours of a module: its public functions that take a target."""
    return {
        name: function
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
    }


BEHAVIOURS: Final[dict[str, Behaviour]] = _of(connections) | _of(requests) | _of(names)


def main() -> None:
    """Misbehave until the time is over."""
    name, broker, namesrv, ha, seconds = sys.argv[1:]
    raise_descriptor_limit()
    BEHAVIOURS[name](Target(broker=broker, namesrv=namesrv, ha=ha, until=time.monotonic() + float(seconds)))


if __name__ == "__main__":
    main()
