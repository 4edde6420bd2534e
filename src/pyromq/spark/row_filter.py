"""Filters by tags and by SQL92, as a broker would apply them, for reads that ask none."""

from __future__ import annotations

import numpy as np

from pyromq.protocol.messages.properties import decode_properties
from pyromq.protocol.sql92.sql_filter import compile_sql
from pyromq.protocol.tag_filter import parse_tags
from pyromq.spark.arrow import Int64s
from pyromq.spark.columns import Columns
from pyromq.spark.records import Records, Rows

_LOWEST_CODE = -(1 << 32)
"""Below it a field is no tags code but the address of an extension: unknown, so it may be wanted."""


class RowFilter:
    """Picks rows by an expression of tags and by one of SQL92, either of which may want everything."""

    def __init__(self, tags: str, sql: str | None) -> None:
        self._tags = parse_tags(tags)
        self._sql = None if sql is None else compile_sql(sql)

    def may_want(self, tags_codes: Int64s) -> Rows:
        """Tell by their tags codes, without reading them, which messages may be wanted."""
        if self._tags.everything:
            return np.ones(len(tags_codes), bool)
        codes = np.array(sorted(self._tags.codes), np.int32)
        return np.isin(tags_codes.astype(np.int32), codes) | (tags_codes < _LOWEST_CODE)

    def wanted(self, records: Records) -> Records:
        """Return the records that are wanted: tags are compared as text, since several have one code."""
        if not self._tags.everything and len(records):
            records = records.select(Columns(records).tagged(self._tags.tags))
        if self._sql is not None and len(records):
            records = records.select(self._accepted(records))
        return records

    def _accepted(self, records: Records) -> Rows:
        assert self._sql is not None
        matches, data = self._sql.matches, records.data
        starts, ends = (part.tolist() for part in records.properties)
        texts = (bytes(data[start:end]) for start, end in zip(starts, ends, strict=True))
        return np.array([matches(decode_properties(text)) for text in texts], bool)
