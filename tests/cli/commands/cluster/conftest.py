"""Two brokers for the commands of each file, and how to run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from subprocess import CompletedProcess

import pytest

from pyromq.testing import LocalCluster
from tests.cli.conftest import pyromq_here

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture(scope="module")
def pair() -> Iterator[LocalCluster]:
    with LocalCluster(2) as running:
        yield running


@pytest.fixture
def command(pair: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `pyromq cluster …` on these brokers."""
    monkeypatch.delenv("COLUMNS", raising=False)  # a parallel run sets it for its workers

    def run(*arguments: str, text: str = "") -> CompletedProcess[str]:
        return pyromq_here("cluster", *arguments, "-n", pair.namesrv, text=text)

    return run
