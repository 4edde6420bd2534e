"""A store for the tests of reads from files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.store.message_store import MessageStore
from tests.spark.read.sample_store import (
    COUNT,
    put_records,
    sample_record,
)
from tests.store.helpers import small_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    """An open store, as a live broker has it: files of a few messages each, two topics mixed in them."""
    with small_store(tmp_path / "store") as store:
        for number in range(COUNT):
            put_records(store, sample_record(number), sample_record(number, "refunds", queue_id=0))
        yield store


@pytest.fixture
def root(tmp_path: Path, store: MessageStore) -> Path:
    return tmp_path / "store"
