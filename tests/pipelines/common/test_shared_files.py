"""A directory that executors do not see is rejected, before they write to their own disks."""

from __future__ import annotations

from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING

import pytest

from pyromq.errors import ConfigError
from pyromq.pipelines.common import shared_files
from pyromq.pipelines.common.shared_files import check_shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_executors_that_do_not_see_a_directory_are_named_by_their_host(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_files, "_is_one_machine", lambda master: False)
    monkeypatch.chdir(tmp_path)  # Spark's workers stay where they are
    check_shared(spark, str(tmp_path / "seen"))
    assert not list((tmp_path / "seen").iterdir()), "nothing is left behind"
    with pytest.raises(ConfigError, match=f"the executors on {gethostname()} do not see /proc/self/cwd/own, which"):
        check_shared(spark, "file:///proc/self/cwd/own")
    check_shared(spark, "s3a://bucket/archive")  # shared by nature


def test_on_one_machine_nothing_is_asked(spark: SparkSession, tmp_path: Path) -> None:
    check_shared(spark, str(tmp_path / "archive"))
    assert not (tmp_path / "archive").exists()
