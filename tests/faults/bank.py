"""The bank of the transfer campaign: the local transactions of account A, in a file that survives every kill."""

from __future__ import annotations

import sqlite3
from pathlib import Path

COMMITTED, ROLLED_BACK = "committed", "rolled back"


class Bank:
    """Each transfer is one row; the first writer decides how the transfer ends."""

    def __init__(self, path: Path) -> None:
        self._sign = path.with_suffix(".closed")
        self._database = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=OFF")  # processes are killed here, machines are not
        self._database.execute("CREATE TABLE IF NOT EXISTS transfers (id TEXT PRIMARY KEY, amount INT, state TEXT)")

    @property
    def is_open(self) -> bool:
        """True while new transfers are made."""
        return not self._sign.exists()

    def close(self) -> None:
        """Stop new transfers in all processes."""
        self._sign.touch()

    def decide(self, transfer: str, amount: int, state: str) -> str:
        """Record how a transfer ends unless that is recorded already; return what is recorded."""
        self._database.execute("INSERT OR IGNORE INTO transfers VALUES (?, ?, ?)", (transfer, amount, state))
        return self.state(transfer) or ""

    def state(self, transfer: str) -> str | None:
        """Return how a transfer ended, None if it has not."""
        row = self._database.execute("SELECT state FROM transfers WHERE id = ?", (transfer,)).fetchone()
        return None if row is None else str(row[0])

    def count(self) -> int:
        """Return the number of transfers that have ended."""
        return int(self._database.execute("SELECT count(*) FROM transfers").fetchone()[0])

    def committed(self) -> dict[str, int]:
        """Return the amounts taken from account A."""
        return dict(self._database.execute("SELECT id, amount FROM transfers WHERE state = ?", (COMMITTED,)))
