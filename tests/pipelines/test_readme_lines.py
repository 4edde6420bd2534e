"""The README's lines work one after another on the README's own message."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from pyromq.cli.pipeline import generated_commands
from pyromq.cli.verbs import app
from pyromq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

README = (Path(__file__).parent.parent.parent / "README.md").read_text()


def _arguments(start: str, directory: Path) -> list[str]:
    (line,) = re.findall(rf"^pyromq {re.escape(start)} .*$", README, re.MULTILINE)
    return [word.replace("/data/", f"{directory}/") for word in shlex.split(line, comments=True)[1:]]


def test_send_archive_and_replay(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened(*args: Any, **given: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(generated_commands, "opened", opened)
    with LocalCluster() as cluster:
        monkeypatch.setenv("NAMESRV_ADDR", cluster.namesrv)
        sent = CliRunner().invoke(app, _arguments("send orders", tmp_path))
        assert sent.exit_code == 0, sent.output
        for name in ("archive", "replay"):
            done = CliRunner().invoke(app, [*_arguments(f"pipeline run {name}", tmp_path), "--json"])
            assert done.exit_code == 0, done.output
            outcome = json.loads(done.stdout)
            assert (outcome["read"], outcome["written"], outcome["dropped"]) == (1, 1, {})
