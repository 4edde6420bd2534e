"""Listing: one page of a long list, searched, filtered and sorted on the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

T = TypeVar("T")

PAGE_SIZE: Final = 50
_LONGEST_QUERY: Final = 200


class Column(NamedTuple):
    """A column that a list can be sorted by."""

    name: str
    key: Callable[[Any], Any]
    descending: bool = False
    """Whether the first click shows the largest first."""


class Listing(Generic[T]):
    """One page of rows, and how it was asked for."""

    def __init__(self, rows: Sequence[T], total: int, found: int, asked: Mapping[str, str], size: int) -> None:
        self.rows = rows
        self.total = total
        """Rows before the search."""
        self.found = found
        """Rows after the search, on all pages."""
        self.size = size
        self.pages = max(-(-found // size), 1)
        self.page = min(_number(asked.get("page", "")), self.pages)
        self.q = asked.get("q", "")[:_LONGEST_QUERY]
        self.sort = ""
        self.descending = False
        self.columns: dict[str, Column] = {}
        self._asked = {name: value for name, value in asked.items() if value}

    @classmethod
    def of(
        cls,
        rows: Iterable[T],
        asked: Mapping[str, str],
        *,
        columns: Sequence[Column],
        sort: str,
        search: Callable[[T], str] | None = None,
        size: int = PAGE_SIZE,
    ) -> Listing[T]:
        """Return the page that `asked` asks for: `q`, `sort` (with a `-` before it for descending) and `page`."""
        every = list(rows)
        words = asked.get("q", "")[:_LONGEST_QUERY].lower().split()
        chosen = [row for row in every if all(word in search(row).lower() for word in words)] if search else every
        by_name = {column.name: column for column in columns}
        wanted = asked.get("sort", "")
        name = wanted.removeprefix("-")
        if name not in by_name:
            name = sort.removeprefix("-")
            wanted = sort
        descending = wanted.startswith("-")
        chosen.sort(key=by_name[name].key, reverse=descending)
        found = cls([], len(every), len(chosen), asked, size)
        found.rows = chosen[(found.page - 1) * size : found.page * size]
        found.sort, found.descending, found.columns = name, descending, by_name
        return found

    @property
    def first(self) -> int:
        """The number of the first row shown."""
        return (self.page - 1) * self.size + 1 if self.found else 0

    @property
    def last(self) -> int:
        """The number of the last row shown."""
        return min(self.page * self.size, self.found)

    def url(self, **changes: object) -> str:
        """Return the query of this list with some changes; a change to None leaves a part out."""
        asked = {**self._asked, **changes}
        if "page" not in changes:
            asked.pop("page", None)
        return "?" + urlencode({name: value for name, value in asked.items() if value not in (None, "")})

    def sort_url(self, name: str) -> str:
        """Return the query that sorts by a column, or turns it round."""
        down = not self.descending if name == self.sort else self.columns[name].descending
        return self.url(sort=f"-{name}" if down else name)


def _number(text: str) -> int:
    return max(int(text), 1) if text.isdecimal() and len(text) < 9 else 1
