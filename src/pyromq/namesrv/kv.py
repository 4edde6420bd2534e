"""KVConfig: values that administrators keep on a name server, such as the order config of topics.

{"configTable":{"<namespace>":{"<key>":"<value>"}}}        kvConfig.json, as Apache's name server writes it
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pyromq.errors import BrokerError
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.bodies.codec import Body, decode, encode
from pyromq.store.small_files.json_file import JsonFile

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"  # the namespace of topic -> "broker-a:8;broker-b:8"

Tables = dict[str, dict[str, str]]


class _KVFile(Body):
    config_table: Tables


class KVConfig:
    """Values by namespace and key; without a path they are kept in memory only."""

    def __init__(self, path: Path | None = None, *, most_pairs: int = 20_000, most_characters: int = 1 << 20) -> None:
        """`most_characters` counts all names, keys and values: the whole table is written at every change."""
        self._most_pairs = most_pairs
        self._most_characters = most_characters
        self._file = JsonFile(path) if path else None
        self._tables: Tables = {}
        self._size = 0
        self._writing = asyncio.Lock()

    def load(self) -> None:
        """Read the file, if there is one; raise ConfigError if it is unreadable."""
        if self._file is not None:
            kept = self._file.load(lambda text: decode(_KVFile, text))
            self._take(kept.config_table if kept else {})

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value; None if there is none."""
        return self._tables.get(namespace, {}).get(key)

    def table(self, namespace: str) -> Mapping[str, str] | None:
        """Return all values of a namespace; None if it never had any."""
        table = self._tables.get(namespace)
        return None if table is None else MappingProxyType(table)

    @property
    def pairs(self) -> int:
        """How many values there are."""
        return sum(map(len, self._tables.values()))

    def figures(self) -> BoundFigures[KVConfig]:
        """Return the figures of this table."""
        return BoundFigures(_FIGURES, lambda: self)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value; it is durable on return.

        Raise BrokerError if there is no room, OSError if it cannot be saved; then nothing has changed.
        """
        async with self._writing:
            self._check_room(namespace, key, value)
            await self._replace(namespace, {**self._tables.get(namespace, {}), key: value})

    async def delete(self, namespace: str, key: str) -> None:
        """Remove a value, if there is one; durable on return, as with `put`."""
        async with self._writing:
            table = self._tables.get(namespace, {})
            if key in table:
                await self._replace(namespace, {known: value for known, value in table.items() if known != key})

    def _check_room(self, namespace: str, key: str, value: str) -> None:
        """Raise BrokerError if a value does not fit. A namespace counts as a key: it stays when it is empty."""
        table = self._tables.get(namespace)
        count = len(self._tables) + sum(map(len, self._tables.values()))
        count += (table is None) + (table is None or key not in table)
        size = self._size + _length(namespace, key, value)
        if table is not None and key in table:
            size -= _length(namespace, key, table[key])
        if count > self._most_pairs:
            text = f"no room: {self._most_pairs} keys would be exceeded (pyromqMaxKvPairs)"
            raise BrokerError(text, limit="pyromqMaxKvPairs")
        if size > self._most_characters:
            text = f"no room: {self._most_characters} characters would be exceeded (pyromqMaxKvCharacters)"
            raise BrokerError(text, limit="pyromqMaxKvCharacters")

    async def _replace(self, namespace: str, table: dict[str, str]) -> None:
        tables = {**self._tables, namespace: table}
        if self._file is not None:
            await asyncio.to_thread(self._save, tables)
        self._take(tables)

    def _save(self, tables: Tables) -> None:
        if self._file is not None:
            self._file.save(encode(_KVFile(tables)))

    def _take(self, tables: Tables) -> None:
        self._tables = tables
        self._size = sum(
            _length(namespace, key, value) for namespace, table in tables.items() for key, value in table.items()
        )


_FIGURES: Final[tuple[Figure[KVConfig], ...]] = (Figure("kv_pairs", "KV settings.", Kind.GAUGE, lambda kv: kv.pairs),)


def _length(namespace: str, key: str, value: str) -> int:
    return len(namespace) + len(key) + len(value)
