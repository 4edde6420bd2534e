"""Tables as answers: whole, or in parts where a frame of 16 MiB is too small for all rows.

Java peers refuse larger frames, and they cannot ask for parts. Topics and groups that do not fit are therefore an error
for them. Committed offsets are not: a slave adds what it gets to what it has, so one answer holds as many rows as fit,
and the next one goes on behind them.

One of our own peers asks for parts by the ext field `pyromqFrom`, the number of rows that it has. The answer says by
`pyromqNext` where to go on, if there is more. Rows keep their order; when some were removed, `pyromqEdition` is another
one, and the peer begins again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, Generic, TypeVar

from pyromq.errors import BrokerError
from pyromq.protocol.bodies import DataVersion
from pyromq.protocol.bodies.json_steps import Steps, encoding
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.admin import TablePartRequestHeader, TablePartResponseHeader
from pyromq.remoting.slices import AnswerSteps

V = TypeVar("V")
W = TypeVar("W")

WHOLE: Final = 15 << 20
"""Bytes of a table that surely fits into a frame."""
PART: Final = 2 << 20
"""Bytes of a part of a table."""

_ROWS_A_STEP: Final = 500


class TableParts(Generic[V, W]):
    """Answers requests for one table, with V as its rows and W as what an answer has of them."""

    def __init__(
        self,
        rows: Callable[[], Mapping[str, V]],
        take: Callable[[str, V], tuple[int, W]],
        wrap: Callable[[DataVersion, dict[str, W]], object],
        *,
        version: Callable[[], DataVersion] = DataVersion,
        in_turns: bool = False,
    ) -> None:
        """`take` returns the most bytes that a row needs, and what goes into an answer, which `wrap` makes.

        `in_turns` if an answer with a part of the rows is of use to any peer.
        """
        self._version = version
        self._rows = rows
        self.take = take
        self._wrap = wrap
        self._in_turns = in_turns
        self._turn = 0
        self._run = secrets.token_hex(4)
        self._removals = 0

    @property
    def edition(self) -> str:
        """What is the same for all parts of one table."""
        return f"{self._run}-{self._removals}"

    def note_removal(self) -> None:
        """Note that a row was removed: those behind it move."""
        self._removals += 1

    def answer(self, request: RemotingCommand) -> AnswerSteps:
        """Answer a request for the table."""
        start = request.header(TablePartRequestHeader).pyromq_from
        version = self._version()  # before the rows: who sees it must not take them for newer than they are
        if start is None:
            rows = yield from self._whole()
            return response(request, body=(yield from encoding(self._wrap(version, rows))))
        edition = self.edition
        rows, end = yield from self._cut(max(start, 0), PART)
        header = TablePartResponseHeader(pyromq_next=end, pyromq_edition=edition)
        return response(request, header=header, body=(yield from encoding(self._wrap(version, rows))))

    def _whole(self) -> Steps[dict[str, W]]:
        start = self._turn
        rows, end = yield from self._cut(start, WHOLE)
        if end is not None and not self._in_turns:
            raise BrokerError("the table does not fit into one answer, and can only be sent in parts (pyromqFrom)")
        self._turn = end or 0
        return rows

    def _cut(self, start: int, most: int) -> Steps[tuple[dict[str, W], int | None]]:
        """Return rows from a place on, and where to go on; None at the end."""
        rows: dict[str, W] = {}
        size = 0
        left = list(islice(self._rows().items(), start, None))  # what changes during the steps does no harm
        for count, (name, row) in enumerate(left):
            weight, rows[name] = self.take(name, row)
            size += weight
            if size > most and count + 1 < len(left):
                return rows, start + count + 1
            if count % _ROWS_A_STEP == 0:
                yield
        return rows, None
