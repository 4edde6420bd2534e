"""The table of a server's keys, and what is wrong with given settings.

Apache ignores an unknown key and keeps the default for a value that it cannot read, silently. Here each is a finding.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from pyromq.errors import ConfigError

Kind = Literal["unknown", "value", "without effect"]


class Key(NamedTuple):
    """A key with an effect: the field it sets, how its text is read, how the field is shown again, what it is for."""

    field: str
    read: Callable[[str], Any]
    show: Callable[[Any], str] = str
    help: str = ""


class FixedKey(NamedTuple):
    """A key that may only have the value that this version keeps; another would change what an answer promises."""

    value: str
    reason: str


class KeyFinding(Struct, frozen=True):
    """What is wrong with one setting."""

    key: str
    kind: Kind
    text: str
    is_error: bool


class KeyTable(Struct, frozen=True, kw_only=True, dict=True):
    """All keys of a server. `old_spellings` maps a key's former name to its current one."""

    keys: Mapping[str, Key]
    fixed: Mapping[str, FixedKey]
    without_effect: frozenset[str]
    old_spellings: Mapping[str, str]

    @cached_property
    def known(self) -> frozenset[str]:
        """All keys by their current names."""
        return frozenset((*self.keys, *self.fixed, *self.without_effect))

    def renamed(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the settings by their current names. An old name beside the current one stays: it has no effect."""
        current = self.old_spellings
        return {(key if current.get(key) in values else current.get(key, key)): text for key, text in values.items()}

    def read(
        self, values: Mapping[str, str], *, lenient: bool = False, always_strict: Collection[str] = ()
    ) -> tuple[dict[str, Any], list[KeyFinding]]:
        """Read settings: return the values by key, and everything that is wrong or has no effect.

        `lenient` accepts unknown keys, but not those of `always_strict`: what a user typed on the command line.
        """
        values = self.renamed(values)
        read: dict[str, Any] = {}
        findings = []
        for key, text in values.items():
            if key in self.keys:
                try:
                    read[key] = self.keys[key].read(text.strip())
                except ValueError as error:
                    findings.append(KeyFinding(key, "value", f"{key} {error}", is_error=True))
            elif key in self.fixed:
                findings += self._check_fixed(key, text.strip())
            elif key in self.without_effect or key in self.old_spellings:
                findings.append(KeyFinding(key, "without effect", self._idle(key), is_error=False))
            else:
                findings.append(KeyFinding(key, "unknown", self._unknown(key), not lenient or key in always_strict))
        return read, findings

    def _check_fixed(self, key: str, text: str) -> list[KeyFinding]:
        allowed, reason = self.fixed[key]
        if text.lower() == allowed.lower():
            return []
        return [KeyFinding(key, "value", f"{key}={text} is not supported: {reason}", is_error=True)]

    def _idle(self, key: str) -> str:
        current = self.old_spellings.get(key)
        return f"{key} is the old name of {current}, which is also set" if current else f"{key} has no effect here"

    def _unknown(self, key: str) -> str:
        by_lower_case = {known.lower(): known for known in self.known}
        near = difflib.get_close_matches(key.lower(), by_lower_case, n=1)
        hint = f"; the nearest is {by_lower_case[near[0]]}" if near else ""
        return f"unknown configuration key {key}{hint}"


def raise_errors(findings: Iterable[KeyFinding]) -> tuple[str, ...]:
    """Raise ConfigError that names all errors; if there are none, return the keys that have no effect, sorted."""
    found = list(findings)
    if errors := [finding.text for finding in found if finding.is_error]:
        raise ConfigError("; ".join(errors))
    return tuple(sorted(finding.key for finding in found))


def show_settings(keys: Mapping[str, Key], values: object) -> dict[str, str]:
    """Return the fields of an object as settings."""
    shown = {}
    for key, row in keys.items():
        value = getattr(values, row.field)
        shown[key] = "" if value is None else row.show(value)
    return shown
