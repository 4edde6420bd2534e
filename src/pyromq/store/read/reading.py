"""What every read of an open store is wrapped in."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from pyromq.errors import StoreClosed
from pyromq.store.config import StoreConfig
from pyromq.store.files import store_error


class OpenStore(Protocol):
    """A store that can be closed."""

    config: StoreConfig
    is_open: bool


class Reading:
    """Refuses to read a closed store, and turns the system's errors into StoreError. Made once: reads are hot."""

    def __init__(self, store: OpenStore) -> None:
        self._store = store

    def __enter__(self) -> None:
        if not self._store.is_open:
            raise StoreClosed("the store is closed")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise store_error("read", str(self._store.config.root), error) from error
