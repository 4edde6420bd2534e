"""Masking: fields of messages that are hidden from everybody but administrators, by topic.

A rule names topics with shell patterns and fields with dotted paths, where `*` stands for any one name or index:
`card.number`, `items.*.price`, `email`. A path without a dot also hides a property or a key of that name at any depth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from msgspec import Struct

HIDDEN: Final = "•••"


class MaskingRule(Struct, frozen=True, kw_only=True):
    """Which fields of which topics are hidden."""

    topic: str
    fields: tuple[str, ...]


class Masks:
    """What is hidden of the messages of one topic."""

    def __init__(self, fields: Sequence[str] = ()) -> None:
        self._paths = [tuple(field.split(".")) for field in fields]
        self._names = {field.lower() for field in fields if "." not in field}

    @classmethod
    def of(cls, rules: Sequence[MaskingRule], topic: str) -> Masks:
        """Return the masks of a topic; retries and dead letters have no rules of their own, so all rules apply."""
        every = topic.startswith("%")
        return cls([field for rule in rules if every or fnmatchcase(topic, rule.topic) for field in rule.fields])

    @property
    def is_any(self) -> bool:
        """Whether anything is hidden."""
        return bool(self._paths)

    def value(self, value: Any) -> Any:
        """Return a parsed body with its hidden fields replaced."""
        return self._hide(value, ()) if self._paths else value

    def properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return properties with the hidden ones replaced."""
        return {name: HIDDEN if name.lower() in self._names else text for name, text in properties.items()}

    def text(self, text: str) -> str:
        """Return a body that is no tree: hidden as a whole if a rule applies, for nobody knows where its fields are."""
        return HIDDEN if self._paths and re.search(r"\S", text) else text

    def _hide(self, value: Any, path: tuple[str, ...]) -> Any:
        if path and (path[-1].lower() in self._names or any(_matches(each, path) for each in self._paths)):
            return HIDDEN
        if isinstance(value, Mapping):
            return {key: self._hide(each, (*path, str(key))) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._hide(each, (*path, str(number))) for number, each in enumerate(value)]
        return value


def _matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    return len(pattern) == len(path) and all(
        a in ("*", b) or a.lower() == b.lower() for a, b in zip(pattern, path, strict=True)
    )
