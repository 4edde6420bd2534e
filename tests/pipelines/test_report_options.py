"""Invalid options are rejected before Spark starts, with one line that names the option."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.pipelines import report
from pyromq.pipelines.common.spark_place import SparkPlace

SOMEWHERE = "127.0.0.1:9876"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (report.Options(), "set what to profile: a cluster by its name server"),
        (report.Options(store="/data", namesrv=SOMEWHERE), "not both"),
        (report.Options(namesrv=SOMEWHERE, sample=0), "--sample must be above 0 and at most 1, not 0"),
        (report.Options(namesrv=SOMEWHERE, since="yesterday"), "--since must be a time such as .*, not 'yesterday'"),
        (report.Options(namesrv=SOMEWHERE, until="2026-13-01"), "--until must be a time such as .*, not '2026-13-01'"),
        (
            report.Options(namesrv=SOMEWHERE, since="2026-02-01", until="2026-01-31T08:00:00Z"),
            "--since 2026-02-01 is not before --until 2026-01-31T08:00:00Z",
        ),
    ],
)
def test_options_that_contradict_themselves_are_refused(options: report.Options, line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        report.check(options)


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_counted(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory; name the page in it"):
        report.check(report.Options(namesrv=SOMEWHERE, out=str(tmp_path)))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"page\.html cannot be written: "):
        report.check(report.Options(namesrv=SOMEWHERE, out=str(tmp_path / "file" / "page.html")))


def test_a_page_that_can_be_written_is_not_there_yet(tmp_path: Path) -> None:
    page = tmp_path / "new" / "page.html"
    report.check(report.Options(namesrv=SOMEWHERE, out=str(page)))
    assert list(page.parent.iterdir()) == []


def test_a_topic_that_is_not_in_the_store_is_refused_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    (tmp_path / "store" / "consumequeue").mkdir()
    options = report.Options(store=str(tmp_path / "store"), topics="ordres", out=str(tmp_path / "page.html"))
    with pytest.raises(ConfigError, match="no topic 'ordres' in the store"):
        report.look(options, SparkPlace())
