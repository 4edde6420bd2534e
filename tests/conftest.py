"""Settings of all tests."""

from __future__ import annotations

import itertools
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.jvms import SHORT_LIVED, short_lived_spark
from tests.shared_cluster import SharedCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("pyromq", deadline=None)  # a noisy machine is not a failure
settings.load_profile("pyromq")

# JVMs that live for seconds start in two thirds of the time without the slow compiler, and in half of it with a class
# archive, which `make test` makes. Child processes inherit it.
for variable, options in (("SPARK_LAUNCHER_OPTS", SHORT_LIVED), ("SPARK_SUBMIT_OPTS", short_lived_spark())):
    os.environ.setdefault(variable, options)

# Contexts of whoever runs the tests must not change what commands do. Nothing is there unless a test writes it.
os.environ["XDG_CONFIG_HOME"] = str(Path(tempfile.gettempdir()) / f"pyromq-tests-{os.getpid()}" / "config")
os.environ.pop("PYROMQ_CONTEXT", None)

_HERE = Path(__file__).parent
_LONG = ("spark", "pipelines", "faults")
_numbers = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--shuffle SEED`, which reveals tests that depend on earlier ones."""
    parser.addoption("--shuffle", metavar="SEED", help="run files, and the tests of each file, in a random order")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle if requested; then put slow tests first, so that parallel workers end at about the same time."""
    seed = config.getoption("--shuffle")
    if seed is not None:
        items[:] = _shuffled(items, random.Random(seed))
    items.sort(key=lambda item: item.path.relative_to(_HERE).parts[0] not in _LONG)


def _shuffled(items: list[pytest.Item], chance: random.Random) -> list[pytest.Item]:
    """Return the tests in another order, those of one file together: they share its fixtures."""
    files = sorted({item.path for item in items})
    chance.shuffle(files)
    place = {path: number for number, path in enumerate(files)}
    return sorted(chance.sample(items, len(items)), key=lambda item: place[item.path])


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests of a worker: it takes ten seconds to start."""
    from pyromq.spark.session import local_session

    session = local_session("pyromq tests", "local[2]", fast_checkpoints=True, **{"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[SharedCluster]:
    shared = SharedCluster()
    yield shared
    shared.close()


@pytest.fixture(scope="session")
def shared_pair() -> Iterator[SharedCluster]:
    """Two brokers."""
    shared = SharedCluster(brokers=2)
    yield shared
    shared.close()


@pytest.fixture
def topic() -> str:
    """A topic that no other test uses."""
    return f"topic-{next(_numbers)}"


@pytest.fixture
def group() -> str:
    """A group that no other test uses."""
    return f"group-{next(_numbers)}"
