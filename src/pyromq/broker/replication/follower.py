"""Follower: a slave's side of replication. It finds its master, agrees on one history, and appends what it is sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.config.public_address import join_address, split_address
from pyromq.broker.parts import Parts
from pyromq.broker.registration import KnownMaster, Registration
from pyromq.broker.replication.agreement import Agreement
from pyromq.broker.replication.epochs import EpochFile
from pyromq.broker.replication.introductions import Hello, decode_confirmed, decode_welcome, encode, proof
from pyromq.broker.replication.master_calls import MasterCalls
from pyromq.broker.replication.slave_link import LinkRules
from pyromq.broker.replication.tables.table_copy import TableCopy
from pyromq.broker.replication.transfers import Transfers
from pyromq.broker.signals import Signal
from pyromq.clock import wait_for
from pyromq.errors import ConnectFailed, PyroMQError, ReplicationRefused
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.bodies.replication import ReplicationState
from pyromq.protocol.ha import NOTE, Transfer, encode_report
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.ticker import Ticker
from pyromq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

_PAUSE: Final = 1.0
_SHORT_PAUSE: Final = 0.2
"""Where etcd tells at once who leads."""
_LIVELY: Final = 0.3
"""Seconds between two signs of life under failover: a leader may have to do without its lease."""
_LONG_PAUSE: Final = 5.0
"""After a refusal: only an operator, or another master, changes it."""
_CONNECT_TIMEOUT: Final = 5.0


class Leaders(Protocol):
    """Who leads, where etcd decides that."""

    @property
    def master(self) -> KnownMaster:
        """Where the leader is; empty if there is none."""

    @property
    def epoch(self) -> int:
        """The number of its epoch."""


class Follower:
    """Follows one master after the other, from `start` to `stop`."""

    def __init__(
        self,
        parts: Parts,
        store: MessageStore,
        epochs: EpochFile,
        remoting: RemotingClient,
        registration: Registration,
        leaders: Leaders | None = None,
    ) -> None:
        """`leaders` if etcd decides who is master; else the name servers know."""
        self.master_end = 0
        """Where the master's log ended when it last said so."""
        self._master_start: int | None = None
        self.is_connected = False
        self.agreed: Signal[[]] = Signal()
        """The log here is one history with the master's, from now on."""
        self.same_log_at = ""
        """Where the master answers requests whose log this one continues; empty while there is none, or Apache's."""
        self.has_caught_up = False
        """Whether, since it was made, all that a master had was here once."""
        self.caught_up: Signal[[]] = Signal()
        """Heard when that is so."""
        self.lost: Signal[[]] = Signal()
        """The connection to a master has ended."""
        self._lost_at: float | None = None
        self._goal: int | None = None
        self._leaders = leaders
        self.master = KnownMaster("", "")
        """The master that it follows, or last tried to follow."""
        self.problem = ""
        """Why it does not follow; empty if it does, or has not tried yet."""
        self._heard: float | None = None
        self._whole: float | None = None
        self._least_epoch = 0
        self._parts = parts
        self._store = store
        self._epochs = epochs
        self._remoting = remoting
        self._registration = registration
        self._agreement = Agreement(store, epochs, parts)
        self._tables = TableCopy(parts, store, remoting)
        self._visible_end: int | None = None  # what this master said last
        self._transfers: Transfers | None = None
        self._reported = -1
        self._task: asyncio.Task[None] | None = None
        self._ticker = Ticker(parts.clock, heartbeat(parts.config), self._heartbeat)
        self._unsubscribe: Callable[[], None] = lambda: None
        self._stop_asking: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Begin to follow, unless it does already."""
        if self._task is not None:
            return
        self._tables.own.load()
        self._parts.offsets.resets.is_copy = True
        self._unsubscribe = self._parts.signals.durable.subscribe(lambda end: self._report())
        self._stop_asking = self._store.cleaner.ask_before_deleting(self._tables.free_to)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Confirm nothing any more, and follow nobody."""
        if await self._let_go():
            await self._tables.own.save()

    async def end(self) -> None:
        """Follow nobody, because this broker becomes master: what clients committed here is the truth now."""
        await self._let_go()
        self._parts.offsets.resets.is_copy = False
        self._tables.own.load()
        self._tables.own.told(self._tables.own.mark)
        await self._tables.own.save()

    async def _let_go(self) -> bool:
        """Return whether it had been started."""
        task, self._task = self._task, None
        if task is None:
            return False
        self._unsubscribe()
        self._stop_asking()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return True

    async def follow_another(self) -> None:
        """Let the master go, and look who it is now; nothing happens to one that follows nobody."""
        if self._task is not None:
            await self.stop()
            self.start()

    async def leave_epochs_before(self, number: int) -> None:
        """Confirm nothing of an epoch before this one any more, and follow no master that leads such a one.

        It holds until the broker ends. A connection that is open ends; the next master is looked for at once.
        """
        self._least_epoch = max(self._least_epoch, number)
        if self._task is not None and self._epochs.number < number:
            await self.stop()
            self.start()

    async def copy_tables(self, master: str) -> None:
        """Take over the tables of a master once; called when it does not follow. Raises PyroMQError."""
        await self._tables.meet(master)

    @property
    def silent_seconds(self) -> float | None:
        """For how long nothing was heard of a master; None if nothing ever was."""
        return None if self._heard is None else max(self._parts.clock.monotonic() - self._heard, 0.0)

    @property
    def alone_seconds(self) -> float | None:
        """For how long no master has been followed; None if one is, or none ever was."""
        if self.is_connected or self._lost_at is None:
            return None
        return self._parts.clock.monotonic() - self._lost_at

    @property
    def confirmed(self) -> int:
        """How much of the log may be reported: what is flushed, where this slave runs with SYNC_FLUSH."""
        return self._store.durable_offset

    def master_start(self, own: int) -> int:
        """Return where the master's log began when it last said so, at most where this one begins."""
        return own if self._master_start is None else min(self._master_start, own)

    @property
    def lag(self) -> int:
        """How many bytes of the master's log are missing here."""
        return max(self.master_end - self._store.max_physical_offset, 0)

    @property
    def lag_seconds(self) -> float:
        """For how long this slave has not had all of the master's log that it knows of; counted on while it is alone.

        It is the greatest age that a missing byte can have. The master's own figure is exact: it knows what it wrote.
        """
        if self.is_connected and not self.lag:
            return 0.0
        return 0.0 if self._whole is None else max(self._parts.clock.monotonic() - self._whole, 0.0)

    def figures(self) -> BoundFigures[Follower]:
        """Return the figures of a slave."""
        return BoundFigures(_FIGURES, lambda: self)

    # --- one master after the other

    async def _run(self) -> None:
        while True:
            pause = _PAUSE if self._leaders is None else _SHORT_PAUSE
            try:
                await self._follow_once()
                self._note_problem("")
            except ReplicationRefused as error:
                pause = _LONG_PAUSE
                self._note_problem(str(error), logging.ERROR)
            except (PyroMQError, OSError, TimeoutError) as error:
                self._note_problem(str(error) or type(error).__name__)
            except Exception:
                logger.exception("following the master failed")
            await self._tables.own.save()
            await self._parts.clock.sleep(pause)

    def _note_problem(self, problem: str, level: int = logging.WARNING) -> None:
        if problem and problem != self.problem:  # one line, not one for every attempt
            logger.log(level, "this slave does not follow: %s", problem)
        self.problem = problem

    async def _follow_once(self) -> None:
        master = self.master = await self._find_master()
        calls = MasterCalls(self._remoting, master.broker)
        state = await calls.state()
        if state is None:
            report = await self._agreement.with_apaches(calls)
        elif not state.is_master:
            raise ConnectFailed(f"the broker at {master.broker} is no master now")
        elif state.epochs and state.epochs[-1].number < self._least_epoch:
            raise ConnectFailed(f"the master at {master.broker} has a successor, and does not know it yet")
        else:
            self._check_epoch(state)
            self._heard = self._parts.clock.monotonic()
            self.master_end, self._master_start = state.max_offset, state.min_offset
            report = await self._agreement.with_ours(state, calls)
            master = KnownMaster(master.broker, self._parts.config.ha_master_address or state.ha_address)
        self.agreed()
        await self._copy(master, state, report)

    async def _find_master(self) -> KnownMaster:
        """Ask the name servers anew: only the answer to a registration names the master."""
        if self._leaders is not None:
            if not self._leaders.master.broker:
                raise ConnectFailed(f"nobody leads the brokers named {self._parts.name} now")
            return self._leaders.master
        await self._registration.register_everywhere()
        broker, ha = self._registration.master
        ha = self._parts.config.ha_master_address or ha
        if not ha:
            raise ConnectFailed(f"no name server knows a master of broker {self._parts.name}")
        if not broker:  # RocketMQ's port for slaves is always the one above
            host, port = split_address(ha)
            broker = join_address(host, port - 1)
        return KnownMaster(broker, ha)

    def _check_epoch(self, state: ReplicationState) -> None:
        """Make sure that it is the leader of whom etcd told: one of before would have this log cut to its own."""
        wanted = self._leaders.epoch if self._leaders is not None else 0
        if wanted and (not state.epochs or state.epochs[-1].number != wanted):
            raise ConnectFailed(f"the master that was elected for epoch {wanted} has not begun it yet")

    # --- the stream

    async def _copy(self, master: KnownMaster, state: ReplicationState | None, report: int) -> None:
        transfers = await self._connect(master.ha)
        try:
            self._store.cut(self._store.max_physical_offset)  # the first bytes of a record that broke off come again
            if self.confirmed < report:  # the last ones of the connection before may not be on the disk yet
                self._store.flush()
            if state is not None:
                await self._introduce(state, transfers)
            self._transfers, self._reported, self._visible_end = transfers, report, None
            self._goal = state.max_offset if state is not None else None
            transfers.write(encode_report(report))
            self._note_caught_up()
            self._ticker.start()
            self.is_connected, self.problem = True, ""
            self.same_log_at = "" if state is None else master.broker
            logger.info("this slave follows master=%s from=%d", master.ha, report)
            copying = asyncio.get_running_loop().create_task(
                self._tables.follow(master.broker, is_ours=state is not None)
            )
            try:
                await transfers.follow(self._append)
            finally:
                copying.cancel()
        finally:
            self.is_connected = False
            self.same_log_at = ""
            self._transfers = None
            self._ticker.stop()
            transfers.close()
            self._lost_at = self._parts.clock.monotonic()
            self.lost()
        raise ConnectFailed(f"the master at {master.ha} closed the connection")

    async def _connect(self, address: str) -> Transfers:
        host, port = split_address(address)
        tls = self._parts.config.own_tls
        context = None if tls is None else tls.context()
        transfers = Transfers(self._parts.clock, self._parts.config.ha_patience)
        connecting = asyncio.get_running_loop().create_connection(lambda: transfers, host, port, ssl=context)
        try:
            await wait_for(self._parts.clock, connecting, _CONNECT_TIMEOUT)
        except (OSError, TimeoutError) as error:
            raise ConnectFailed(f"cannot connect to the master at {address}: {error or 'no answer'}") from error
        return transfers

    async def _introduce(self, state: ReplicationState, transfers: Transfers) -> None:
        config = self._parts.config
        hello = Hello(
            config.name,
            self._registration.slave_id,
            self._epochs.store_id,
            state.epochs[-1].id if state.epochs else "",
            self._store.copied_log.file_size,
            self._parts.address,
        )
        transfers.write(encode(hello))
        welcome = decode_welcome(await transfers.note())
        if welcome.challenge:
            transfers.write(encode(proof(config.ha_secret, welcome.challenge, hello)))
            welcome = decode_welcome(await transfers.note())
        if welcome.refusal:
            raise ReplicationRefused(f"the master refuses this slave: {welcome.refusal}")

    def _append(self, transfers: list[Transfer]) -> None:
        self._heard = self._parts.clock.monotonic()
        for physical_offset, body in transfers:
            if physical_offset == NOTE:
                self._visible_end = decode_confirmed(body)
            else:
                if body:
                    self._store.append_raw(physical_offset, body)
                self.master_end = max(self.master_end, physical_offset + len(body))
            if self._visible_end is not None:  # at once: what follows may count on it
                self._store.confirm(min(self._visible_end, self._store.max_physical_offset))
        if self._store.max_physical_offset >= self.master_end:
            self._whole = self._heard
        self._report()

    # --- reports

    def _report(self, *, again: bool = False) -> None:
        confirmed, transfers = self.confirmed, self._transfers
        if transfers is None or transfers.is_closing:
            return
        if again or confirmed > self._reported:
            self._reported = max(confirmed, self._reported)
            transfers.write(encode_report(self._reported))
            self._note_caught_up()

    def _note_caught_up(self) -> None:
        if not self.has_caught_up and self._goal is not None and self._reported >= self._goal:
            self.has_caught_up = True
            self.caught_up()

    def _heartbeat(self) -> bool:
        self._report(again=True)
        return True


def heartbeat(config: BrokerConfig) -> float:
    """Return the seconds between two signs of life of master and slave."""
    return min(config.ha_heartbeat, _LIVELY) if config.failover else config.ha_heartbeat


def link_rules(config: BrokerConfig) -> LinkRules:
    """Return what a master asks of its slaves, and gives them."""
    return LinkRules(
        name=config.name,
        batch_size=config.ha_batch_size,
        heartbeat=heartbeat(config),
        patience=config.ha_patience,
        secret=config.ha_secret,
        needs_proof=config.acl_enabled,
        allowed=config.ha_allowed,
        catch_up_rate=config.ha_catch_up_rate,
    )


_FIGURES: Final[tuple[Figure[Follower], ...]] = (
    Figure("replication_connected", "Whether this slave follows its master.", Kind.GAUGE, lambda one: one.is_connected),
    Figure(
        "replication_lag_bytes", "Bytes of the master's log that are missing here.", Kind.GAUGE, lambda one: one.lag
    ),
    Figure(
        "replication_lag_seconds",
        "For how long not all of the master's log was here that this slave knows of, also while it follows nobody.",
        Kind.GAUGE,
        lambda one: one.lag_seconds,
    ),
)
