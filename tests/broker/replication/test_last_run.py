"""LastRun: what a machine can have lost of a store since it last ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.broker.replication.last_run import BOOT_ID_PATH, LAST_RUN_NAME, LastRun
from pyromq.store.config import StoreConfig
from pyromq.store.files import OsFiles
from pyromq.store.message_store import MessageStore
from pyromq.store.small_files.checkpoint import CHECKPOINT_NAME
from tests.broker.conftest import StartBroker
from tests.broker.replication.full_disk import FullDisk


class Machine:
    """A directory, and a machine that is booted, on which runs begin and end."""

    def __init__(self, path: Path) -> None:
        self.root = path / "store"
        self.root.mkdir()
        self._boot = path / "boot_id"
        self._abort = self.root / "abort"
        self.boot("first")

    def boot(self, name: str) -> None:
        self._boot.write_text(name + "\n")

    def lose_boot_id(self) -> None:
        self._boot.unlink()

    def look(self, files: OsFiles | None = None) -> LastRun:
        run = LastRun(self.root, files, self._boot)
        run.load()
        return run

    def start(self, *, sync_flush: bool = False, log_end: int = 100) -> LastRun:
        run = self.look()
        self._abort.touch()
        run.begin(sync_flush, log_end)
        return run

    def stop(self, run: LastRun, end: int = 100) -> None:
        run.finish(end)
        self._abort.unlink()

    def repair(self) -> None:
        self._abort.unlink()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_new_directory_is_intact(machine: Machine) -> None:
    assert machine.look().is_intact(sync_flush=False)


def test_a_directory_that_another_program_left_open_is_not_intact(machine: Machine) -> None:
    (machine.root / "abort").touch()
    assert not machine.look().is_intact(sync_flush=True)


def test_a_clean_stop_is_intact_after_any_boot(machine: Machine) -> None:
    machine.stop(machine.start())
    machine.boot("second")
    assert machine.look().is_intact(sync_flush=False)


def test_a_killed_process_loses_nothing_while_its_machine_runs(machine: Machine) -> None:
    machine.start()
    assert machine.look().is_intact(sync_flush=False)


def test_a_power_cut_may_lose_what_was_not_flushed(machine: Machine) -> None:
    machine.start()
    machine.boot("second")
    assert not machine.look().is_intact(sync_flush=False)


@pytest.mark.parametrize(
    ("before", "now", "intact"), [(True, True, True), (True, False, False), (False, True, False), (False, False, False)]
)
def test_the_flush_type_of_the_run_before_counts(machine: Machine, before: bool, now: bool, intact: bool) -> None:
    machine.start(sync_flush=before)
    machine.boot("second")
    assert machine.look().is_intact(sync_flush=now) is intact


def test_an_unknown_boot_is_never_the_same(machine: Machine) -> None:
    machine.lose_boot_id()
    machine.start()
    assert not machine.look().is_intact(sync_flush=False)


def test_doubts_outlive_the_next_run_however_it_ends(machine: Machine) -> None:
    machine.start()
    machine.boot("second")
    run = machine.start()
    assert not machine.look().is_intact(sync_flush=False), "killed, in the same boot"
    machine.stop(run)
    assert not machine.look().is_intact(sync_flush=False), "stopped"


def test_doubts_end_when_what_was_lost_was_fetched(machine: Machine) -> None:
    machine.start()
    machine.boot("second")
    machine.start().settle()
    assert machine.look().is_intact(sync_flush=False)


def test_a_repair_after_a_power_cut_is_no_clean_stop(machine: Machine) -> None:
    machine.start()
    machine.repair()
    machine.boot("second")
    assert not machine.look().is_intact(sync_flush=False)


def test_a_damaged_file_after_a_kill_is_not_intact(machine: Machine) -> None:
    machine.start()
    (machine.root / LAST_RUN_NAME).write_bytes(b"{}")
    assert not machine.look().is_intact(sync_flush=False)


def test_a_full_disk_is_survived(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.look(FullDisk()).begin(False, 0)
    assert "cannot record this run" in caplog.text


@pytest.mark.skipif(not BOOT_ID_PATH.exists(), reason="this system does not name its boots")
def test_the_boot_of_this_machine_is_known(machine: Machine) -> None:
    for _ in range(2):
        run = LastRun(machine.root)
        run.load()
        assert run.is_intact(sync_flush=False)
        (machine.root / "abort").touch()
        run.begin(False, 0)


# --- other programs that write the log


def test_a_log_that_ends_where_it_was_left_is_ours(machine: Machine) -> None:
    machine.stop(machine.start(), end=500)
    assert machine.look().foreign_start(500) is None


def test_a_log_that_ends_later_was_written_by_another(machine: Machine) -> None:
    machine.stop(machine.start(), end=500)
    assert machine.look().foreign_start(700) == 500


def test_a_log_that_ends_earlier_has_lost_something(machine: Machine) -> None:
    machine.stop(machine.start(), end=500)
    assert machine.look().foreign_start(300) is None
    machine.stop(machine.start(log_end=300), end=300)
    assert not machine.look().is_intact(sync_flush=False)


def test_a_killed_run_does_not_say_where_the_log_ends(machine: Machine) -> None:
    machine.start()
    assert machine.look().foreign_start(700) is None


def test_a_checkpoint_of_another_broker_after_a_kill_shows_that_it_wrote(machine: Machine) -> None:
    machine.start()
    (machine.root / "abort").unlink()
    with MessageStore(StoreConfig(root=machine.root), lambda: 1_000):
        pass
    assert machine.look().foreign_start(700) is None
    (machine.root / CHECKPOINT_NAME).write_bytes((5_000).to_bytes(8, "big") * 3 + bytes(4072))
    assert machine.look().foreign_start(700) == 0


async def test_a_broker_records_its_run(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = await start_broker()
    assert not broker.history.last_run._now.lost
    assert broker.history.last_run._now.end == -1
    await broker.__aexit__(None, None, None)
    after = LastRun(tmp_path / "store")
    after.load()
    assert after.is_intact(sync_flush=False)
    assert after.foreign_start(0) is None
    assert after.foreign_start(1) == 0
