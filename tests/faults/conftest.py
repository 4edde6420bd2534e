"""What the short forms of the campaigns share."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_log() -> Iterator[None]:
    """Keep what listeners raise out of the report: some of their texts have no form in UTF-8."""
    logging.disable(logging.CRITICAL)
    yield
    gc.collect()  # tasks whose exception nobody asked for say so when they are collected
    logging.disable(logging.NOTSET)
