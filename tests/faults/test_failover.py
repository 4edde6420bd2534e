"""The short form of the failover campaign: one master is killed under load."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.etcd_server import etcd_unavailable
from tests.faults.actors.blows import KILL
from tests.faults.actors.broker_set import SetOptions
from tests.faults.failover import rounds_on_a_set

pytestmark = pytest.mark.skipif(bool(etcd_unavailable()), reason=etcd_unavailable())


@pytest.mark.usefixtures("no_log")
def test_nothing_acknowledged_is_lost_when_a_master_is_killed(tmp_path: Path) -> None:
    report = rounds_on_a_set([KILL], SetOptions(), 1, tmp_path)
    assert report.good, "\n".join([str(report), *map(str, report.findings), *report.problems])
    assert [blow.how for blow in report.blows] == [KILL]
    assert report.figures["acknowledged"] > 50
    assert report.figures["reigns"] > 1
