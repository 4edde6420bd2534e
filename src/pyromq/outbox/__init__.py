"""The transactional outbox: messages that are written with the business rows, in one transaction, and sent afterwards.

    outbox.py   Outbox: add() within the transaction; run() sends what was committed
    rows.py     the table of waiting messages, and a message as a row
    lease.py    the row that says which process sends: one at a time, or the order would be lost
    relay.py    one pass: read rows, send them, delete those that are stored

A message gets its id when it is added. Before a pass sends rows, it marks them as tried. Whoever finds a marked row,
after a crash or a time-out, first asks the brokers for a message with that id. So a row is sent once unless a broker
answers that question wrongly, because it has not indexed the message yet or is another one than before.
"""

from __future__ import annotations

from pyromq.outbox.outbox import Outbox

__all__ = ["Outbox"]
