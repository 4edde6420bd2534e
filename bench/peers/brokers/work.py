"""What is measured."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ..load.generator import Shape


class Setting(Enum):
    """What the servers promise."""

    ASYNC = "acknowledged from memory, on disk within a second"
    SYNC = "acknowledged when on disk"
    PAIR = "SYNC_MASTER with a slave, asynchronous flush"
    ACL = "access control, every request signed; asynchronous flush"


KINDS = {
    "send": Setting.ASYNC,
    "pull": Setting.ASYNC,
    "sync": Setting.SYNC,
    "pair": Setting.PAIR,
    "acl": Setting.ACL,
    "acl-pull": Setting.ACL,
}


class Work(NamedTuple):
    """What is done, and in which shape."""

    kind: str
    shape: Shape

    def __str__(self) -> str:
        return f"{self.kind} {self.shape}"

    @property
    def setting(self) -> Setting:
        return KINDS[self.kind]

    @property
    def is_pull(self) -> bool:
        return self.kind.endswith("pull")

    @classmethod
    def of(cls, text: str) -> Work:
        """Read `send 64x1`."""
        kind, shape = text.split()
        if kind not in KINDS:
            raise SystemExit(f"no such work: {text!r}; there is {', '.join(KINDS)}")
        return cls(kind, Shape.of(shape))
