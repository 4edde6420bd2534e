"""Every call that touches a file fails once while keys are written: what was acknowledged is found by its keys."""

from __future__ import annotations

import errno
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from pyromq.errors import StoreError
from pyromq.store.message_store import MessageStore
from tests.store.helpers import FakeTime, FaultyFiles, QuickFiles, small_config
from tests.store.index.test_message_index import TINY, found, keyed
from tests.store.test_faults import numbers_of


def live(root: Path, files: FaultyFiles) -> list[str]:
    """Open a store twice, fill two index files, query, flush and close; return the keys that were acknowledged."""
    acknowledged = []
    for number in range(2):
        store = MessageStore(small_config(root, **TINY), FakeTime(), files)
        with suppress(StoreError), store:
            for index in range(7):
                key = f"k{number}{index}"
                store.put(keyed(key, "same", body=key.encode()))
                store.commit()
                acknowledged.append(key)
                if index == 3:
                    store.query("orders", key, 1)
                    with suppress(OSError):
                        store.flusher.checkpoint()
    return acknowledged


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["pwrite", "ftruncate", "fdatasync", "open", "pread", "unlink", "rename"])
def test_a_call_that_fails_costs_no_key_of_an_acknowledged_message(tmp_path: Path, call: str, error: int) -> None:
    probe = FaultyFiles(flushes=False)
    assert len(live(tmp_path / "probe", probe)) == 14
    for number in numbers_of(error, probe.calls[call]):
        root = tmp_path / str(number)
        files = FaultyFiles(lambda *now, at=(call, number): error if now == at else None, flushes=False)
        acknowledged = live(root, files)
        with MessageStore(small_config(root, **TINY), FakeTime(), QuickFiles()) as store:
            for key in acknowledged:
                assert found(store, key) == [key.encode()]
            same = [body.decode() for body in found(store, "same")]
            assert set(same) >= set(acknowledged)
            assert len(same) == len(set(same))
        shutil.rmtree(root)
