"""Parses a page as a browser does, and rejects what a self-contained page must not have."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_VOID = {"meta", "br"}
_OUTSIDE = re.compile(r"https?:|@import|url\(", re.IGNORECASE)
_LOADING = {"script", "link", "img", "iframe", "object", "embed", "base", "form"}


class Html(HTMLParser):
    """A page: its tags are balanced, it loads nothing and runs nothing; `text` is what a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        assert not _OUTSIDE.search(page), "a page that needs nothing else names no address"
        self.words: list[str] = []
        self.tags: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in _LOADING, tag
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs), attrs
        self.tags.append(tag)
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.words.append(data)

    @property
    def text(self) -> str:
        """All texts, including those shown on hovering."""
        return "\n".join(self.words)
