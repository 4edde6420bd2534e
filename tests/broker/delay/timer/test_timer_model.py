"""The timer against a plain model: whatever is sent, cancelled, cleaned, killed or cut off, each message comes once."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.broker.delay.timer.timer_rig import TimerRig

seconds = st.one_of(st.integers(1, 10), st.integers(1, 4000), st.integers(1, 40 * 86400))


class TimerMachine(RuleBasedStateMachine):
    """Events are kept with their place in the log, so that a power cut can take those behind the last flush."""

    @initialize(sync=st.booleans())
    def begin(self, sync: bool) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="pyromq-timer-"))
        self.loop = asyncio.new_event_loop()
        flush = "SYNC_FLUSH" if sync else "ASYNC_FLUSH"
        self.rig = TimerRig(self.directory, flush_disk_type=flush, commit_log_file_size=2048)
        self.seen = 0
        self.due: dict[str, int] = {}
        self.puts: dict[str, int] = {}
        self.cancels: dict[str, int] = {}
        self.deliveries: dict[str, int] = {}
        self.run(self.rig.open())

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(coroutine)

    def teardown(self) -> None:
        if hasattr(self, "rig"):
            self.run(self.rig.close())
            self.run(self.loop.shutdown_default_executor())
            self.loop.close()
            shutil.rmtree(self.directory)

    def check(self, must_be_due_ms: int | None = None) -> None:
        """Compare what has been delivered with what had to be, and with what might be."""
        self.rig.collect()
        for message in self.rig.delivered[self.seen :]:
            self.seen += 1
            name = message.message_id
            assert name not in self.deliveries, "delivered twice"
            assert name not in self.cancels, "delivered although it was cancelled"
            assert self.due[name] <= self.rig.clock.now_ms(), "delivered early"
            assert message.body.strip() == name.encode()
            self.deliveries[name] = message.physical_offset
        if must_be_due_ms is not None:
            late = [name for name in self.waiting() if self.due[name] <= must_be_due_ms]
            assert not late, "not delivered in time"

    def waiting(self) -> list[str]:
        return [name for name in self.puts if name not in self.cancels and name not in self.deliveries]

    @rule(delays=st.lists(seconds, min_size=1, max_size=6), size=st.integers(10, 900))
    def put(self, delays: list[int], size: int) -> None:
        for delay in delays:
            name = f"m{len(self.due)}"
            self.due[name] = self.rig.clock.now_ms() + delay * 1000
            self.puts[name] = self.run(self.rig.put(name, {"TIMER_DELAY_SEC": str(delay)}, size))
        self.check()

    @rule(delay=seconds)
    def move(self, delay: int) -> None:
        target_ms = self.rig.clock.now_ms() + delay * 1000
        self.run(self.rig.move(seconds=delay))
        self.check(target_ms)

    @precondition(lambda self: self.puts)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.puts)))
        waits = name in self.waiting()
        place = self.run(self.rig.cancel(name))
        assert (place is not None) == waits
        if place is not None:
            self.cancels[name] = place
        self.check()

    @rule()
    def save(self) -> None:
        self.run(self.rig.save())
        self.check()

    @rule()
    def clean(self) -> None:
        assert self.run(self.rig.clean()), "files of the log did not go"
        self.check()

    @rule()
    def restart(self) -> None:
        self.run(self.rig.close())
        self.check()
        self.run(self.rig.open())
        self.check()

    @rule()
    def kill(self) -> None:
        self.run(self.rig.kill())
        self.check()

    @rule()
    def lose_the_table(self) -> None:
        self.run(self.rig.kill(lambda root: shutil.rmtree(root / "pyromq.timer", ignore_errors=True)))
        self.check()

    @rule()
    def cut_power(self) -> None:
        self.check()
        end = self.rig.store.flushed_offset
        for events in (self.puts, self.cancels, self.deliveries):
            for name in [name for name, place in events.items() if place >= end]:
                del events[name]
        self.run(self.rig.cut_power())
        self.check()


TimerMachine.TestCase.settings = settings(
    max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestTimerAgainstAModel = TimerMachine.TestCase
