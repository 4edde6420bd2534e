"""TransactionService: builds the parts for transactions for the broker."""

from __future__ import annotations

from typing import Final

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.messages.deferred_messages import DelayedMessages
from pyromq.broker.parts import Parts, Writing
from pyromq.broker.transactions.half_mover import HalfMover
from pyromq.broker.transactions.late_ends import LateEnds
from pyromq.broker.transactions.open_transactions import OpenTransactions
from pyromq.broker.transactions.state_checks import TransactionChecks
from pyromq.broker.transactions.transaction_history import TransactionHistory
from pyromq.broker.transactions.transaction_ledger import load_ledger
from pyromq.broker.transactions.transaction_progress import TransactionProgress
from pyromq.broker.transactions.transaction_requests import TransactionHandlers
from pyromq.figures import BoundFigures, Figure, Kind


class TransactionService:
    """Half messages, their ends, the checks, and the saved progress."""

    def __init__(self, parts: Parts, writing: Writing, delayed: DelayedMessages) -> None:
        store, acknowledgements = writing.store, writing.acknowledgements
        ledger = load_ledger(store, parts.offsets)
        self.transactions = OpenTransactions(parts, writing, ledger, delayed)
        history = TransactionHistory(store)
        self.late_ends = LateEnds(self.transactions, history, parts.reads)
        self.checks = TransactionChecks(parts, writing, self.transactions)
        self._mover = HalfMover(parts, writing, self.transactions, history)
        self._forget_place = store.cleaner.ask_before_deleting(self._mover.free_to)
        self._progress = TransactionProgress(
            store, parts.offsets, ledger, writing.durability, acknowledgements, parts.clock
        )
        self.requests = TransactionHandlers(
            store, parts.reads, self.transactions, self.late_ends, history, acknowledgements, parts.access
        )

    def configure(self, config: BrokerConfig) -> None:
        """Apply changed settings; the interval of the checks stays what it was at the start."""
        self.transactions.rejects = config.reject_transactions
        self.checks.configure(config)

    def start(self) -> None:
        """Start to ask producers and to save the progress."""
        self.checks.start()
        self._progress.start()

    async def stop(self) -> None:
        """Stop; what is open stays open."""
        self._forget_place()
        await self._mover.stop()
        await self.checks.stop()
        await self.late_ends.stop()
        self._progress.stop()

    def figures(self) -> BoundFigures[TransactionService]:
        """Return the figures of all transactions."""
        return BoundFigures(_FIGURES, lambda: self)


_FIGURES: Final[tuple[Figure[TransactionService], ...]] = (
    Figure(
        "transactions_open",
        "Half messages that are neither committed nor rolled back.",
        Kind.GAUGE,
        lambda service: service.transactions.open_count(),
    ),
    Figure(
        "transactions_committed",
        "Transactions that were committed.",
        Kind.COUNTER,
        lambda service: service.transactions.commits,
    ),
    Figure(
        "transactions_rolled_back",
        "Transactions that were rolled back.",
        Kind.COUNTER,
        lambda service: service.transactions.rollbacks,
    ),
    Figure(
        "transactions_ended_again",
        "Commits and rollbacks of a transaction that had ended before.",
        Kind.COUNTER,
        lambda service: service.late_ends.repeated,
    ),
    Figure(
        "transaction_checks",
        "Questions to producers about open transactions.",
        Kind.COUNTER,
        lambda service: service.checks.checks,
    ),
    Figure(
        "transactions_given_up",
        "Transactions that were checked too often, or are too old.",
        Kind.COUNTER,
        lambda service: service.checks.given_up,
    ),
)
