"""HaServer: the replication port of a master, and all slaves that follow it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from pyromq.broker.replication.slave_link import LinkRules, SlaveLink
from pyromq.broker.signals import Signal
from pyromq.clock import Clock
from pyromq.errors import CannotListen
from pyromq.remoting.round import Round
from pyromq.remoting.ticker import Ticker
from pyromq.remoting.tls.server_tls import ServerTls
from pyromq.remoting.tls.tls_port import TlsPort
from pyromq.store.message_store import MessageStore
from pyromq.store.read.copied_log import CopiedLog
from pyromq.store.results import Arrival

TICK: Final = 1.0
_MOST_LINKS: Final = 64
"""More connections than any set of slaves needs: what comes then is cut off."""

_MARKS: Final = 3_600
"""Of the log's end, one for each tick at which it had moved: they tell how old missing bytes are."""

MayContinue = Callable[[SlaveLink, int], Awaitable[str]]


class HaServer:
    """Accepts slaves from `bind` and `start` on; while `epoch_id` is empty, each is cut off at once."""

    def __init__(
        self,
        log: CopiedLog,
        rules: LinkRules,
        clock: Clock,
        *,
        host: str,
        port: int,
        may_continue: MayContinue,
        tls: ServerTls | None = None,
    ) -> None:
        self.links: set[SlaveLink] = set()
        self.epoch_id = ""
        """The epoch in which this broker is master."""
        self.changed: Signal[[]] = Signal()
        """A slave has confirmed more, has come or has gone."""
        self.followed: Signal[[SlaveLink]] = Signal()
        """A slave is accepted, and will be sent the log."""
        self.reported_by: Signal[[SlaveLink]] = Signal()
        """A slave has told how much of the log it has."""
        self.left_by: Signal[[SlaveLink]] = Signal()
        """A slave's connection has ended."""
        self._left_with: dict[int, tuple[str, int]] = {}  # by slave, the epoch and how much of the log it had
        self.may_continue = may_continue
        self._visible_end: int | None = None
        self._is_telling = False
        self.port = port
        self._host = host
        self._log = log
        self._rules = rules
        self._tls_port = None if tls is None else TlsPort(tls, self._new_link, clock, rules.patience)
        self._clock = clock
        self._ticker = Ticker(clock, min(TICK, rules.heartbeat), self._tick)
        self._executor = ThreadPoolExecutor(1, "pyromq-replication")
        self._listener: asyncio.Server | None = None
        self._marks: deque[tuple[int, float]] = deque([(log.end, clock.monotonic())], _MARKS)

    async def open(self) -> None:
        """Take the port and accept connections; raise CannotListen if it cannot be had."""
        loop = asyncio.get_running_loop()
        try:
            self._listener = await loop.create_server(self._tls_port or self._new_link, self._host, self.port)
        except OSError as error:
            raise CannotListen(self._host, self.port, error, "slaves") from error
        self.port = self._listener.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Release the port and let all slaves go."""
        self._ticker.stop()
        if self._tls_port is not None:
            self._tls_port.close()
        self.let_go()
        if self._listener is not None:
            self._listener.close()
            await self._listener.wait_closed()
        self._executor.shutdown(wait=False)

    def let_go(self) -> None:
        """End all connections: this broker is no master any more, or its log has changed."""
        for link in tuple(self.links):
            link.close()

    def pump(self) -> None:
        """Send all slaves what was written; called at the end of each round.

        What is visible is said before the bytes that follow it: a slave that has the delivery of a delayed message has
        heard that the message itself was visible.
        """
        self._tell()
        for link in tuple(self.links):
            link.pump()

    def announce(self, end: int) -> None:
        """Say to our own slaves, also those that come later, up to where messages are visible; once in a pass."""
        self._visible_end = end
        if not self._is_telling and self.links:
            self._is_telling = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._is_telling = False
        if self._visible_end is not None:
            for link in tuple(self.links):
                link.tell(self._visible_end)

    def serve(
        self, store: MessageStore, round: Round, arrived: Signal[[Sequence[Arrival]]], keep_bytes: Callable[[], int]
    ) -> Callable[[], None]:
        """Send what is written at the end of each round; return what ends that.

        Files of the log stay while a slave still copies them, up to `keep_bytes`. Slaves show what is visible here, and
        no more, where only confirmed messages are shown.
        """
        ends = [
            round.at_end(self.pump),
            store.cleaner.ask_before_deleting(lambda start: self.keep_from(start, keep_bytes())),
        ]
        if store.config.shows_confirmed_only:
            self.announce(store.confirm_offset)
            ends.append(arrived.subscribe(lambda *_: self.announce(store.confirm_offset)))

        def stop() -> None:
            for end in ends:
                end()

        return stop

    def keep_from(self, start: int, most: int) -> int:
        """Return up to where, at most `start`, every slave that is connected has the log; `most` bytes before that."""
        copied = min((link.acknowledged for link in self.links if link.position is not None), default=start)
        return max(copied, start - most)

    def same_logs(self, end: int) -> list[str]:
        """Return where slaves of ours answer requests that have the log up to an end."""
        links = (link for link in self.links if link.position is not None and link.acknowledged >= end)
        return [link.hello.address for link in links if link.hello is not None and link.hello.address]

    def is_copied(self, slaves: Iterable[int], end: int) -> bool:
        """Return True if each of these slaves has said, in this epoch, that it has the log up to an end."""
        ends = {broker_id: had for broker_id, (epoch, had) in self._left_with.items() if epoch == self.epoch_id}
        for link in self.links:
            if link.hello is not None and link.position is not None:
                ends[link.hello.broker_id] = max(link.acknowledged, ends.get(link.hello.broker_id, 0))
        return all(ends.get(broker_id, -1) >= end for broker_id in slaves)

    def behind_seconds(self, link: SlaveLink) -> float:
        """Return the age of the oldest byte that a slave lacks, to the second; 0 if it lacks none.

        It is counted from the last tick at which the slave's log would have been whole; after an hour, from later ones.
        """
        if link.acknowledged >= self._log.end:
            return 0.0
        whole = (at for end, at in reversed(self._marks) if end <= link.acknowledged)
        return max(self._clock.monotonic() - next(whole, self._marks[0][1]), 0.0)

    # --- told by links

    def joined(self, link: SlaveLink) -> None:
        self.links.add(link)
        self._ticker.start()
        if len(self.links) > _MOST_LINKS:
            link.refuse(f"there are more than {_MOST_LINKS} connections")

    def started(self, link: SlaveLink) -> None:
        self.followed(link)
        if self._visible_end is not None:
            link.tell(self._visible_end)

    def reported(self, link: SlaveLink) -> None:
        self.reported_by(link)
        self.changed()

    def left(self, link: SlaveLink) -> None:
        self.links.discard(link)
        if link.hello is not None and link.position is not None:
            self._left_with[link.hello.broker_id] = link.hello.epoch, link.acknowledged
        self.left_by(link)
        self.changed()

    def _new_link(self) -> SlaveLink:
        return SlaveLink(self._log, self._rules, self, self._executor, self._clock)

    def _tick(self) -> bool:
        if self._log.end == self._marks[-1][0]:
            self._marks.pop()
        self._marks.append((self._log.end, self._clock.monotonic()))
        for link in tuple(self.links):
            link.tick()
        return bool(self.links)
