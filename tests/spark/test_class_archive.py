"""The class archive: created completely or not at all, and used by sessions if it exists."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pyromq.errors import ConfigError
from pyromq.spark import class_archive
from pyromq.spark.launch import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Jvm:
    """A session whose JVM writes an archive of these bytes at its end; the empty one writes none."""

    def __init__(self, options: str, data: bytes) -> None:
        self._target = Path(options.partition("ArchiveClassesAtExit=")[2].partition('"')[0])
        self._data = data
        self.stdin = SimpleNamespace(close=lambda: None)
        self.sparkContext = SimpleNamespace(_gateway=SimpleNamespace(proc=self))

    def stop(self) -> None:
        """Like that of a session."""

    def wait(self, timeout: float) -> None:
        if self._data:
            self._target.write_bytes(self._data)


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python environment without an archive, whose sessions do no work."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", "/some/java")
    monkeypatch.setattr(class_archive, "_work", lambda spark, directory: None)
    return tmp_path


def _sessions_write(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def session(name: str, *, master: str, conf: dict[str, str]) -> Jvm:
        return Jvm(conf["spark.driver.extraJavaOptions"], data)

    monkeypatch.setattr(class_archive, "session", session)


def test_an_archive_takes_the_place_of_an_older_one(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert java.archive_options() == ""
    for data in (b"older", b"newer"):
        _sessions_write(data, monkeypatch)
        path = class_archive.make()
        assert path.read_bytes() == data
        assert list(path.parent.iterdir()) == [path]
    assert java.archive_options().startswith(f'"-XX:SharedArchiveFile={path}" ')


def test_a_java_that_makes_no_archives_is_one_line_and_leaves_nothing(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _sessions_write(b"", monkeypatch)
    with pytest.raises(ConfigError, match=r"^the Java at /some/java cannot create class archives$"):
        class_archive.make()
    assert list(java.archive_path().parent.iterdir()) == []
    assert java.archive_options() == ""


@pytest.mark.spark
def test_a_session_takes_the_archive_of_its_environment(spark: SparkSession) -> None:
    taken = spark.conf.get("spark.driver.extraJavaOptions")
    assert taken is not None
    assert java.archive_options() in taken
