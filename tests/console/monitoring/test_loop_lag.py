"""How late the event loop is."""

from __future__ import annotations

import time

from pyromq.console.monitoring.loop_lag import LoopLag
from pyromq.testing import eventually


async def test_what_holds_the_loop_is_seen_for_a_minute() -> None:
    lag = LoopLag()
    lag.start()
    time.sleep(0.35)  # noqa: ASYNC251 (this is what must be noticed)
    await eventually(lambda: lag.longest >= 0.2)
    await eventually(lambda: lag.last < lag.longest)
    lag.stop()
    assert {row.name for row in lag.figures().rows} == {"loop_lag_ms", "loop_lag_max_ms"}
