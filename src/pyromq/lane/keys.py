"""The lane for keys: from the properties of messages to the entries of an index file.

The plain form is with the index, in numpy: `store/index/key_batch.py` and `IndexWriter.put`. `c/_keys.c` does the same
in C, for less than a quarter of the time. `tests/lane/` compares the two.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

from pyromq.lane import native

Array: TypeAlias = Any
"""Numbers side by side in memory, as numpy has them; Python 3.11 has no type for that."""


class HashKeys(Protocol):
    """Hashes the keys of messages."""

    def __call__(self, messages: list[str | bytes | int], /) -> tuple[bytes, bytes, bytes] | None:
        """Return hashes (32 bits), places and times (64), one of each for a key; None for the plain form."""


class LinkKeys(Protocol):
    """Puts keys into the slots of an index file."""

    def __call__(
        self,
        head: Array,
        changed: Array,
        slots_at: int,
        slots: int,
        page: int,
        first: int,
        begin_ms: int,
        most_seconds: int,
        hashes: Array,
        places: Array,
        times: Array,
        /,
    ) -> tuple[bytes, int]:
        """Return the entries of the keys, and how many of their slots were empty before.

        `head` is the memory of an index file's header and slots, which begin at `slots_at`. The first entry gets number
        `first`. Pages of the head that change are marked in `changed`.
        """


class KeyLane(NamedTuple):
    """What indexes keys."""

    hash_keys: HashKeys
    link: LinkKeys


def key_lane() -> KeyLane | None:
    """Return the native form if there is one."""
    module = native("keys")
    return None if module is None else KeyLane(module.hash_keys, module.link)
