"""The short form of the chaos campaign: one round of a few seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.chaos import one_round


@pytest.mark.usefixtures("no_log")
def test_nothing_is_lost_invented_or_out_of_order_while_everything_goes_wrong(tmp_path: Path) -> None:
    report = one_round(530, seconds=4.0, keep=tmp_path)
    assert report.good, "\n".join([str(report), *map(str, report.findings), *report.problems])
    assert report.figures["acknowledged"] > 50
    assert report.figures["dead letters"] > 0
    assert report.figures["restarts"] > 0
