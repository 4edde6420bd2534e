"""Settings of all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.jvms import SHORT_LIVED, short_lived_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("pyromq", deadline=None)  # a noisy machine is not a failure
settings.load_profile("pyromq")

# JVMs that live for seconds start in two thirds of the time without the slow compiler, and in half of it with a class
# archive, which `make test` makes. Child processes inherit it.
for variable, options in (("SPARK_LAUNCHER_OPTS", SHORT_LIVED), ("SPARK_SUBMIT_OPTS", short_lived_spark())):
    os.environ.setdefault(variable, options)

_HERE = Path(__file__).parent
_LONG = ("spark", "pipelines", "faults")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long: workers that run side by side are then done at about the same time."""
    items.sort(key=lambda item: item.path.relative_to(_HERE).parts[0] not in _LONG)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests of a worker: it takes ten seconds to start."""
    from pyromq.spark.session import local_session

    session = local_session("pyromq tests", "local[2]", fast_checkpoints=True, **{"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()
