"""Queue tails: the newest entries of queues stay in memory for a moment, then each queue gets one write for them all.

    group shown → the tail of each of its queues → about 0.8 s later, some queues at a time → the queues' files

A write for every queue of every round is most of what a send to a thousand topics in turn costs. Nothing is lost with
a tail: its records are in the log, and recovery gives them their entries again, from the last checkpoint on.

- **Owner.** The thread that writes to the store owns tails and writes them, a few queues in each turn of its loop. So
  there are no locks, and no reader sees half a change. A thread of its own only says when. (Writing there, too, takes
  the same CPU time: each write gives up the interpreter's lock, and the loop then waits for it.)
- **Readers** of the open store look into the tail first (`ConsumeQueue`). Readers of the files, in other processes, see
  queues that are a second old.
- **Room.** A queue has its space on the disk before a message is taken, as ever: a full disk refuses messages, and a
  tail fits where it belongs.
- **Bounded.** While `LIMIT` bytes wait, entries are written at once.
- **Dear where many are busy.** Writes to thousands of files take longer, so the pause is longer: 0.8 s up to some 3,500
  queues, 2 or 3 s for 10,000, never more than 5 s.
- **The checkpoint** says up to where the files of all queues hold the log: as far as messages were visible when the
  last pass over the tails began.
- **Failing.** A write that fails stops the store, as that of the log does. Entries stay in memory, for readers; what
  was acknowledged is in the log.

Where only confirmed messages are shown, entries are written at once: after a crash they tell what somebody has seen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from time import perf_counter
from types import TracebackType
from typing import Final, Self

from pyromq.store.consume_queue import ENTRY_SIZE, ConsumeQueue
from pyromq.store.dispatch import WriteGroup
from pyromq.store.flush import Flusher, LogEnd

LIMIT: Final = 16 << 20
"""Bytes of entries that may wait."""
_INTERVAL: Final = 0.8  # seconds; with the time a pass takes, no entry waits longer than one
_LONGEST: Final = 5.0
_SHARE: Final = 20  # a pass takes at most this part of the time: a write of some bytes to each of 10,000 files is dear
_AT_A_TIME: Final = 64  # queues; half a millisecond or a little more


def pause_after(seconds: float) -> float:
    """Return for how long entries are held after a pass that took so many seconds."""
    return min(max(_INTERVAL, _SHARE * seconds), _LONGEST)


class QueueTails:
    """The queues that have a tail; a context manager, within which groups are held and not written at once."""

    def __init__(
        self,
        flusher: Flusher,
        call_threadsafe: Callable[..., object] | None,
        fail: Callable[[str, OSError], object],
        *,
        at_once: bool = False,
    ) -> None:
        """`call_threadsafe` runs a function on the thread that writes; without it, or with `at_once`, none is held."""
        self._flusher = flusher
        self._call_threadsafe = call_threadsafe
        self._fail = fail
        self._at_once = at_once or call_threadsafe is None
        self.limit = 0
        """Bytes that may wait; 0 while entries are written at once."""
        self._waiting: list[ConsumeQueue] = []
        self._taken: list[ConsumeQueue] = []  # by the pass that is under way
        self._taken_end = flusher.dispatched_end
        self._bytes = self._taken_bytes = 0
        self._pause, self._took = _INTERVAL, 0.0  # seconds until the next pass, and that this one has taken
        self._has_work = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep_calling, name="pyromq-tails", daemon=True)

    def __enter__(self) -> Self:
        if not self._at_once:
            self.limit = LIMIT
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.limit = 0
        self._waiting, self._taken = [], []  # written by now, or the store has failed
        self._stopping.set()
        self._has_work.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_waiting(self) -> bool:
        """Whether a queue has entries in memory only."""
        return bool(self._waiting or self._taken)

    # --- showing

    def show(self, group: WriteGroup) -> None:
        """Let consumers see the messages of a group: in the tails of its queues, or written at once."""
        if self._bytes < self.limit:
            self._hold(group.entries)
        else:
            for queue, entries in group.entries.items():
                queue.append(entries)
        if group.restore is not None:
            group.restore()

    def shown(self, end: LogEnd) -> None:
        """Note up to where messages are visible now."""
        self._flusher.dispatched(end)
        if not self.is_waiting:
            self._flusher.queued(end)

    def _hold(self, entries_by_queue: Mapping[ConsumeQueue, list[bytes]]) -> None:
        waiting, count = self._waiting, 0
        if not waiting:
            self._has_work.set()
        for queue, entries in entries_by_queue.items():
            if not queue.tail:
                waiting.append(queue)
            queue.hold(entries)
            count += len(entries)
        self._bytes += count * ENTRY_SIZE

    # --- writing

    def write_all(self) -> None:
        """Write all tails; raises OSError."""
        while self.is_waiting:
            self.write_some()

    def write_some(self, most: int = _AT_A_TIME) -> None:
        """Write the tails of some queues, of this pass or of the next; raises OSError."""
        if not self._taken:
            self._taken, self._waiting = self._waiting[::-1], []
            self._taken_bytes, self._taken_end = self._bytes, self._flusher.dispatched_end
        taken = self._taken
        for queue in taken[: -most - 1 : -1]:
            queue.write_tail()
        del taken[-most:]
        if not taken:
            self._bytes -= self._taken_bytes
            self._flusher.queued(self._taken_end if self._waiting else self._flusher.dispatched_end)

    def _keep_calling(self) -> None:
        assert self._call_threadsafe is not None
        while self._has_work.wait() and not self._stopping.wait(self._pause):
            self._has_work.clear()
            if self._stopping.is_set():  # since a moment ago: what was cleared may have been the call to stop
                return
            try:
                self._call_threadsafe(self._begin_pass)
            except RuntimeError:  # the loop is closed, and the store was not
                return

    def _begin_pass(self) -> None:
        if not self._taken:
            self._go_on()

    def _go_on(self) -> None:
        """Write some tails in this turn of the loop, and the others of the pass in the next ones."""
        assert self._call_threadsafe is not None
        began = perf_counter()
        try:
            self.write_some()
        except OSError as error:
            self._fail("write to", error)
            return
        self._took += perf_counter() - began
        if self._taken:
            self._call_threadsafe(self._go_on)
            return
        self._pause, self._took = pause_after(self._took), 0.0
        if self._waiting:
            self._has_work.set()
