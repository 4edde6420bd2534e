"""Idempotent consumers: a message that arrives twice takes effect once.

    idempotent.py   Idempotent: wraps a handler; token and business writes are one database transaction
    handler.py      what a handler's signature asks for: a connection or a session, async or not
    tokens.py       the table of tokens, and what is a token
    caches.py       what stands before the table: MemoryCache, RedisCache

A message passes like this: its token (its business key, never its message id) is looked up in the cache. If it is not
there, a transaction inserts it into the table, which waits for another transaction that inserts the same one. Then the
handler writes through the same connection, the transaction commits, and the cache learns the token. A token that is
in the table already means that the message took effect before: it is acknowledged.
"""

from __future__ import annotations

from pyromq.idempotent.caches import MemoryCache, RedisCache, TokenCache
from pyromq.idempotent.idempotent import Idempotent
from pyromq.idempotent.tokens import business_key

__all__ = ["Idempotent", "MemoryCache", "RedisCache", "TokenCache", "business_key"]
