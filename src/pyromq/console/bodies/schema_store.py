"""SchemaStore: the schemas that operators uploaded, in one file of the console."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec

from pyromq.console.bodies.schemas import BodySchema, BodySchemas
from pyromq.errors import ClientError, ConfigError

logger = logging.getLogger(__name__)

MOST_SCHEMAS = 100


class SchemaStore:
    """Keeps schemas by topic pattern; without a file, as long as the console runs."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._schemas: list[BodySchema] = []
        self._ready: BodySchemas | None = None

    def load(self) -> None:
        """Read the file; raise ConfigError if it is damaged."""
        try:
            data = self._path.read_bytes() if self._path is not None else b"[]"
        except FileNotFoundError:
            return
        try:
            self._schemas = msgspec.json.decode(data, type=list[BodySchema])
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{self._path}: {error}") from None

    @property
    def ready(self) -> BodySchemas:
        """All of them, ready to decode with; one that cannot be used here any more is left out."""
        if self._ready is None:
            self._ready = BodySchemas(schema for schema in self._schemas if _is_usable(schema))
        return self._ready

    @property
    def all(self) -> tuple[BodySchema, ...]:
        """All schemas; the first that fits a topic counts."""
        return tuple(self._schemas)

    def put(self, schema: BodySchema) -> None:
        """Add a schema, or replace the one of the same pattern; raise ConfigError if it cannot be used."""
        schema.check()
        others = [one for one in self._schemas if one.topic != schema.topic]
        if len(others) >= MOST_SCHEMAS:
            raise ClientError(f"there are {MOST_SCHEMAS} schemas already: remove one")
        self._save([*others, schema])

    def remove(self, topic: str) -> None:
        """Remove the schema of a pattern; raise ClientError if there is none."""
        others = [one for one in self._schemas if one.topic != topic]
        if len(others) == len(self._schemas):
            raise ClientError(f"there is no schema for {topic!r}")
        self._save(others)

    def _save(self, schemas: list[BodySchema]) -> None:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new = self._path.with_suffix(".tmp")
            new.write_bytes(msgspec.json.encode(schemas))
            os.replace(new, self._path)
        self._schemas = schemas
        self._ready = None


def _is_usable(schema: BodySchema) -> bool:
    try:
        schema.check()
    except ConfigError as error:
        logger.warning("bodies of %s are shown without their schema: %s", schema.topic, error)
        return False
    return True
