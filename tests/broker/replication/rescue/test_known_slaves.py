"""Which slaves a broker remembers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.replication.rescue.known_slaves import SLAVES_NAME, KnownSlaves
from tests.broker.replication.full_disk import FullDisk


def opened(root: Path) -> KnownSlaves:
    slaves = KnownSlaves(root)
    slaves.load()
    return slaves


def test_a_slave_is_known_after_a_restart_where_it_was_last(tmp_path: Path) -> None:
    slaves = opened(tmp_path)
    slaves.note(1, "10.0.0.1:10911")
    slaves.note(2, "10.0.0.2:10911")
    slaves.note(1, "10.0.0.3:10911")
    assert opened(tmp_path).addresses == {1: "10.0.0.3:10911", 2: "10.0.0.2:10911"}


def test_a_slave_that_does_not_say_where_it_is_cannot_be_asked(tmp_path: Path) -> None:
    slaves = opened(tmp_path)
    slaves.note(1, "")
    assert slaves.addresses == {}
    assert not (tmp_path / SLAVES_NAME).exists()


def test_a_full_disk_keeps_no_slave_from_following(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    slaves = KnownSlaves(tmp_path, FullDisk())
    slaves.note(1, "10.0.0.1:10911")
    assert slaves.addresses == {1: "10.0.0.1:10911"}
    assert "cannot remember a slave" in caplog.text


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({"brokerRole": "SYNC_MASTER"}, 60.0),
        ({"brokerRole": "ASYNC_MASTER"}, 0.0),
        ({"brokerRole": "SYNC_MASTER", "pyromqWaitForSlave": "0"}, 0.0),
        ({"brokerRole": "ASYNC_MASTER", "pyromqWaitForSlave": "1500"}, 1.5),
    ],
)
def test_how_long_a_master_waits_for_them(settings: dict[str, str], seconds: float) -> None:
    assert broker_config(settings).wait_for_slave == seconds
