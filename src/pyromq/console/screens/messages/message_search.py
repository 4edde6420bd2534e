"""What a search for messages asks for, and what it found: the values behind the screen Messages."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct

from pyromq.admin.messages.search import MessageSearch, SearchBudget, TimeRange
from pyromq.console.bodies.rendering import RenderedBody
from pyromq.console.web.failures import FormError
from pyromq.console.web.visit import Visit
from pyromq.protocol.messages.message import MessageExt

BUDGET: Final = SearchBudget(messages=20_000, seconds=4.0)
ENOUGH: Final = 50
"""Found messages after which a search stops, at the end of a millisecond, so that the next one repeats nothing."""
_MOST: Final = 500
_FIELDS: Final = ("topic", "key", "tags", "where", "contains", "since", "until", "order")
_LONGEST: Final = 2000


class FoundMessage(Struct, frozen=True):
    """A row of the result."""

    message: MessageExt
    body: RenderedBody


class SearchResult(Struct, frozen=True, kw_only=True):
    """What a search found within its budget."""

    rows: tuple[FoundMessage, ...]
    looked_at: int
    seconds: float
    rest: TimeRange | None
    """What it has not looked at; None if that is nothing."""
    reason: str
    """Why it stopped, if not because it had found enough."""
    silent_brokers: Mapping[str, str]

    @property
    def reached(self) -> datetime | None:
        """The time up to which messages were looked at."""
        return None if self.rest is None else self.rest.until or self.rest.since


class SearchWish(Struct, frozen=True, kw_only=True):
    """The fields of the form, as the address of the page has them."""

    topic: str = ""
    key: str = ""
    tags: str = ""
    where: str = ""
    contains: str = ""
    since: str = ""
    until: str = ""
    order: str = "newest"

    @classmethod
    def of(cls, query: Mapping[str, str]) -> SearchWish:
        """Read the query of a page."""
        found = {name: query.get(name, "").strip()[:_LONGEST] for name in _FIELDS}
        return cls(**found | {"order": "oldest" if found["order"] == "oldest" else "newest"})

    @property
    def looks_into_bodies(self) -> bool:
        """True if a condition is about bodies, as far as the words say."""
        return bool(self.contains) or "body." in self.where.replace(" ", "").lower()

    def url(self, **changes: str) -> str:
        """Return the address of a search like this one."""
        values = {name: getattr(self, name) for name in _FIELDS} | changes
        return "/messages?" + urlencode({name: value for name, value in values.items() if value and value != "newest"})

    def next_url(self, rest: TimeRange) -> str:
        """Return the address of the search that goes on where this one stopped."""
        if self.order == "oldest":
            return self.url(since=_text(rest.since))
        return self.url(until=_text(rest.until))

    def open(self, visit: Visit) -> MessageSearch:
        """Prepare the search; raise FormError for a time that is none, LocalProtocolError for a wrong condition."""
        return visit.admin.messages.find(
            self.topic,
            key=self.key or None,
            tags=self.tags or None,
            where=self.where or None,
            contains=self.contains.encode() or None,
            since=moment(self.since, visit),
            until=moment(self.until, visit),
            oldest_first=self.order == "oldest" and not self.key,
            budget=BUDGET,
            seen=visit.bodies.seen,
        )


async def run_search(visit: Visit, wish: SearchWish) -> SearchResult:
    """Search within the budget of a page."""
    clock = visit.parts.clock
    began = clock.monotonic()
    search = wish.open(visit)
    rows: list[FoundMessage] = []
    is_enough = False
    async for message in search:
        is_enough = len(rows) >= ENOUGH and message.store_timestamp_ms != rows[-1].message.store_timestamp_ms
        if is_enough or len(rows) >= _MOST:
            break
        rows.append(FoundMessage(message, visit.bodies.render(message)))
    is_stopped = is_enough or search.stopped is not None or len(rows) >= _MOST
    return SearchResult(
        rows=tuple(rows),
        looked_at=search.looked_at,
        seconds=clock.monotonic() - began,
        reason=search.stopped.reason if search.stopped else "",
        rest=search.rest if is_stopped else None,
        silent_brokers=dict(search.silent_brokers),
    )


def moment(text: str, visit: Visit) -> datetime | None:
    """Return the time in a field, UTC unless it has a zone; None if the field is empty."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise FormError(visit.t("{text} is not a time such as 2026-01-31T08:00", text=text[:40])) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _text(time: datetime | None) -> str:
    return "" if time is None else time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
