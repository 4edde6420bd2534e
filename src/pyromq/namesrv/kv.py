"""KVConfig: values that administrators keep on a name server, such as the order config of topics.

{"configTable":{"<namespace>":{"<key>":"<value>"}}}        kvConfig.json, as Apache's name server writes it
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pyromq.protocol.bodies.codec import Body, decode, encode
from pyromq.store.small_files.json_file import JsonFile

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"  # the namespace of topic -> "broker-a:8;broker-b:8"

Tables = dict[str, dict[str, str]]


class _KVFile(Body):
    config_table: Tables


class KVConfig:
    """Values by namespace and key; without a path they are kept in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        self._file = JsonFile(path) if path else None
        self._tables: Tables = {}
        self._writing = asyncio.Lock()

    def load(self) -> None:
        """Read the file, if there is one; raise ConfigError if it is unreadable."""
        if self._file is not None:
            kept = self._file.load(lambda text: decode(_KVFile, text))
            self._tables = kept.config_table if kept else {}

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value; None if there is none."""
        return self._tables.get(namespace, {}).get(key)

    def table(self, namespace: str) -> Mapping[str, str] | None:
        """Return all values of a namespace; None if it never had any."""
        table = self._tables.get(namespace)
        return None if table is None else MappingProxyType(table)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value; it is durable on return. Raise OSError if it cannot be saved; then nothing has changed."""
        async with self._writing:
            await self._replace(namespace, {**self._tables.get(namespace, {}), key: value})

    async def delete(self, namespace: str, key: str) -> None:
        """Remove a value, if there is one; durable on return, as with `put`."""
        async with self._writing:
            table = self._tables.get(namespace, {})
            if key in table:
                await self._replace(namespace, {known: value for known, value in table.items() if known != key})

    async def _replace(self, namespace: str, table: dict[str, str]) -> None:
        tables = {**self._tables, namespace: table}
        if self._file is not None:
            await asyncio.to_thread(self._file.save, encode(_KVFile(tables)))
        self._tables = tables
