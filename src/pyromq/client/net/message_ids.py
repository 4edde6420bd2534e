"""Message ids that no other process makes, whatever it shares with this one: address, process id, time or seed."""

from __future__ import annotations

import os
import secrets
from weakref import WeakSet

from pyromq.client.net.address import local_address
from pyromq.protocol.messages.message_id import UniqueIds, series_prefix


def message_ids() -> UniqueIds:
    """Return a new generator of ids; in a forked child it begins a series of its own."""
    ids = UniqueIds(_new_series)
    _generators.add(ids)
    return ids


def _new_series() -> str:
    # Not from `random`: programs seed it, and replicas in containers often have equal addresses and process ids.
    return series_prefix(local_address(), os.getpid(), secrets.randbits(32))


_generators: WeakSet[UniqueIds] = WeakSet()


def _begin_anew() -> None:
    for ids in _generators:
        ids.begin_series()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_begin_anew)
