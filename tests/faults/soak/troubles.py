"""What goes wrong in a soak: rude clients, and faults of the server and of clients."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from typing import Final

from tests.faults.campaign import Server
from tests.faults.hostile.__main__ import misbehave
from tests.faults.hostile.behaviours import BEHAVIOURS

RUDE_FOR: Final = 12.0
PAUSED_FOR: Final = 2.0
# These fill tables up to their limits, which then are as full as they may be: memory is flat only after that. They
# have their own campaign. The last two leave messages behind that the other groups have to read.
LEFT_OUT: Final = {
    "topics", "consumer_groups", "committed_groups", "registered_topics", "producer_groups", "locked_queues",
    "large_messages", "far_delays", "transactions_without_end", "many_properties", "large_batches",
}  # fmt: skip


class Troubles:
    """Makes trouble at a steady pace; the same seed makes the same."""

    def __init__(self, server: Server, addresses: dict[str, str], seed: int) -> None:
        self.server = server
        self.counts: Counter[str] = Counter()
        self._addresses = addresses
        self._chance = random.Random(seed)
        self._rude: list[subprocess.Popen[bytes]] = []

    async def make(self) -> None:
        """Make one trouble."""
        if self._chance.random() < 0.2:
            self.counts["pause"] += 1
            self.server.send_signal(signal.SIGSTOP)
            await asyncio.sleep(PAUSED_FOR)
            self.server.send_signal(signal.SIGCONT)
            return
        name = self._chance.choice([name for name in BEHAVIOURS if name not in LEFT_OUT])
        self.counts[name] += 1
        self._rude.append(misbehave(name, self._addresses, RUDE_FOR))

    def close(self) -> None:
        """End the rude clients that still run."""
        for process in self._rude:
            with suppress(OSError):
                process.kill()
            process.wait()
