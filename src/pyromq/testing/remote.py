"""RemoteCluster: the same tests against servers that run elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from pyromq.admin.admin_client import AdminClient
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.clock import SystemClock
from pyromq.errors import NotSupported
from pyromq.testing.cluster import LocalCluster
from pyromq.testing.expectations import TestCluster

_LONGEST_WAIT: Final = 60.0  # seconds that `advance` really waits
_ONLY_LOCAL: Final = frozenset(name for name in dir(LocalCluster) if not name.startswith("_")) | {
    *("brokers", "slaves", "data")
}


def _refuse(reason: str) -> NoReturn:
    raise NotSupported(reason)


class RemoteCluster(TestCluster):
    """A real cluster in place of a LocalCluster, inside `with` or `async with`.

    `expect` and `messages` see only what was stored since it was opened, so that a topic may hold older messages. What
    only a LocalCluster can do, such as `kill`, ends in `refuse(reason)`, which raises NotSupported; the pytest plugin
    skips the test instead.
    """

    def __init__(self, namesrv: str, *, refuse: Callable[[str], NoReturn] = _refuse) -> None:
        super().__init__(SystemClock())
        self.namesrv = namesrv
        self.clock = RealClock(refuse)
        self._refuse = refuse

    async def __aenter__(self) -> Self:
        async with AdminClient(self.namesrv) as admin:
            calls = AdminCalls(admin.api.remoting)
            masters = await admin.masters()
            tables = {name: await calls.runtime_info(address) for name, address in masters.items()}
        self._begun = {name: int(table["commitLogMaxOffset"]) for name, table in tables.items()}
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def __enter__(self) -> Self:
        return asyncio.run(self.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name in _ONLY_LOCAL:
            self._refuse(f"a real cluster has no {name!r}: only a LocalCluster does")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class RealClock(SystemClock):
    """Time that no test can move: `advance` waits as long as it says, or refuses if that is more than a minute."""

    def __init__(self, refuse: Callable[[str], NoReturn]) -> None:
        self._refuse = refuse

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Wait that long."""
        time.sleep(self._accepted(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)))

    async def advance_async(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Wait that long, while the calling loop continues."""
        await asyncio.sleep(self._accepted(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)))

    def _accepted(self, distance: timedelta) -> float:
        if distance.total_seconds() > _LONGEST_WAIT:
            self._refuse(f"a real cluster's clock cannot be advanced by {distance}")
        return distance.total_seconds()
