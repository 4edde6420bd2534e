"""Caches of tokens that took effect. A cache only saves a look at the database: whatever it forgets is found there."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

from pyromq.clock import Clock, SystemClock

if TYPE_CHECKING:
    from redis import Redis

logger = logging.getLogger(__name__)

PAUSE: Final = 10
"""Seconds without Redis after a failure."""


class TokenCache(Protocol):
    """Remembers tokens. Its methods may be called from any thread, and must not raise."""

    waits: bool
    """Whether it waits for something such as a network; then it is called on a thread."""

    def has(self, token: str) -> bool: ...
    def add(self, token: str) -> None: ...


class MemoryCache:
    """Remembers the latest tokens of this process."""

    waits = False

    def __init__(self, size: int = 100_000) -> None:
        self._size = size
        self._tokens: OrderedDict[str, None] = OrderedDict()
        self._lock = Lock()

    def has(self, token: str) -> bool:
        """Return True if a token is remembered."""
        with self._lock:
            if token not in self._tokens:
                return False
            self._tokens.move_to_end(token)
            return True

    def add(self, token: str) -> None:
        """Remember a token; the one that was not asked for the longest is forgotten."""
        with self._lock:
            self._tokens[token] = None
            self._tokens.move_to_end(token)
            if len(self._tokens) > self._size:
                self._tokens.popitem(last=False)


class RedisCache:
    """Remembers tokens in Redis, for all processes of a group; needs the package `redis`.

    While Redis is away, the database alone decides. Give the client short time-outs and no retries of its own: each
    failure costs one of them, and then Redis is not asked for PAUSE seconds.
    """

    waits = True

    def __init__(
        self,
        client: Redis,
        *,
        prefix: str = "pyromq:token:",
        expires: timedelta = timedelta(days=1),
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._expires = expires
        self._clock = clock or SystemClock()
        self._away_until = self._clock.monotonic()

    def has(self, token: str) -> bool:
        """Return True if a token is remembered."""
        return bool(self._ask(lambda: self._client.exists(self._prefix + token)))

    def add(self, token: str) -> None:
        """Remember a token until it expires."""
        self._ask(lambda: self._client.set(self._prefix + token, b"", ex=self._expires))

    def _ask(self, question: Callable[[], object]) -> object:
        if self._clock.monotonic() < self._away_until:
            return None
        try:
            return question()
        except Exception as error:  # redis is no dependency of this module, so neither are its exceptions
            self._away_until = self._clock.monotonic() + PAUSE
            logger.warning("the cache of tokens is away, the database alone is asked for %d s: %s", PAUSE, error)
            return None
