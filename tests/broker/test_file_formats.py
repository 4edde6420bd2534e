"""A broker's directory has no file of ours that is not on the page of formats."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from pyromq import Message, blocking
from pyromq.errors import UnknownFormat
from pyromq.testing import LocalCluster, wait_until

PAGE = (Path(__file__).parent.parent.parent / "docs" / "upgrade.md").read_text()
LISTED = dict(re.findall(r"^\| `([\w./]+)` \|[^|]*\| (\d+) \|", PAGE, re.MULTILINE))


def ours(root: Path) -> set[str]:
    """Return what RocketMQ's broker would not have written."""
    names = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    return {name for name in names if re.search(r"pyromq|journal|changedSettings\.json$", name)}


def test_every_file_of_ours_is_listed_with_its_format(tmp_path: Path) -> None:
    found: set[str] = set()
    with LocalCluster(slaves=1, data=tmp_path) as cluster:
        with blocking.Producer("shop", cluster.namesrv, clock=cluster.clock) as shop:
            shop.send(Message(topic="orders", body=b"one", keys=["o-1"]))
            shop.send(Message(topic="orders", body=b"later"), delay=timedelta(hours=1))
        wait_until(lambda: (cluster.brokers[0].store_path / "pyromq.slaves").exists())
        for broker in (*cluster.brokers, *cluster.slaves):
            found |= ours(broker.store_path)
        cluster.stop_broker(0)
        found |= ours(cluster.brokers[0].store_path)
    assert {"pyromq.position", "pyromq.epochs", "pyromq.last_run"} < found
    assert {name.removesuffix("-wal").removesuffix("-shm") for name in found} <= LISTED.keys()
    assert set(LISTED.values()) == {"1"}


def test_a_broker_refuses_a_file_of_a_later_release_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "store" / "config" / "changedSettings.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"changes":{},"format":2}')
    with pytest.raises(UnknownFormat, match=r"changedSettings\.json has format 2"), LocalCluster(data=tmp_path):
        pass
