"""SecretRemover: takes passwords, keys and tokens out of text that leaves the machine.

It works in two passes. `learn` collects the values of everything that is named like a secret: in files, in the
environment, in contexts. `clean` replaces such values, what looks like a secret by itself (private keys, bearer tokens,
passwords in addresses), and every other place where a learned value stands, such as a log line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

REMOVED: Final = "***"
SHORTEST: Final = 5
"""Characters of a value that is looked for elsewhere: shorter ones stand everywhere."""

_WORDS: Final = "secret|passw|passphrase|pwd|token|credential|private.?key|api.?key|access.?key|authorization|cookie"
_NAME: Final = rf"[\w.\-]*(?:{_WORDS})[\w.\-]*"
_IN_JSON: Final = re.compile(rf'("{_NAME}"\s*:\s*)("(?:[^"\\]|\\.)*"|[^\s,\]}}]+)', re.IGNORECASE)
_ON_A_LINE: Final = re.compile(
    rf"^([ \t]*(?:-[ \t]+|export[ \t]+|set[ \t]+)?{_NAME}[ \t]*[:=][ \t]*)(\S.*)$", re.IGNORECASE | re.MULTILINE
)
_IN_TEXT: Final = re.compile(
    rf"(?<![\w.\-\"])({_NAME}[ \t]*[:=][ \t]*|--{_NAME}[ \t]+)(\"[^\"\n]*\"|'[^'\n]*'|[^\s,;&\"']+)", re.IGNORECASE
)
_BEARER: Final = re.compile(r"\b((?:Bearer|Basic)[ \t]+)([A-Za-z0-9._~+/=\-]{6,})", re.IGNORECASE)
_IN_ADDRESS: Final = re.compile(r"(://[^/\s:@]*:)([^\s@]+)(?=@)")
_PEM: Final = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)(.*?)(?=-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_RULES: Final = (_PEM, _IN_JSON, _ON_A_LINE, _IN_TEXT, _BEARER, _IN_ADDRESS)
_HARMLESS: Final = frozenset({"true", "false", "none", "null", "empty", REMOVED})
_IS_SECRET: Final = re.compile(_WORDS, re.IGNORECASE)
_DIRECTORY: Final = re.compile(r"(?<![A-Za-z_])(?:OLD)?PWD(?![A-Za-z_])")
"""The shell's variables for directories, which are no passwords."""


class SecretRemover:
    """Knows secrets, and removes them from text."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self.removed = 0
        """How many places were changed."""

    def learn(self, text: str) -> None:
        """Take over the values in a text that are named like secrets."""
        for rule in _RULES[1:]:
            for found in rule.finditer(text):
                if not _DIRECTORY.search(found[1]):
                    self.learn_values([found[2]])

    def learn_values(self, values: Iterable[str]) -> None:
        """Take over secrets."""
        for value in values:
            bare = value.strip().strip("\"'")
            if len(bare) >= SHORTEST and bare.lower() not in _HARMLESS:
                self._known.add(bare)

    def learn_environment(self, variables: Mapping[str, str]) -> None:
        """Take over the values of variables that are named like secrets."""
        self.learn_values(value for name, value in variables.items() if _is_secret(name))

    def clean(self, text: str) -> str:
        """Return a text without secrets."""
        for rule in _RULES:
            text = rule.sub(self._replacement, text)
        for value in sorted(self._forms(), key=len, reverse=True):
            if value in text:
                self.removed += text.count(value)
                text = text.replace(value, REMOVED)
        return text

    def _forms(self) -> Iterator[str]:
        """Yield the secrets as they may be written: as they are, and escaped in JSON."""
        for value in self._known:
            yield value
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            if escaped != value:
                yield escaped

    def _replacement(self, found: re.Match[str]) -> str:
        value = found[2].strip()
        if _DIRECTORY.search(found[1]):
            return found[0]
        if value.strip("\"'").lower() in _HARMLESS or not value.strip("\"'"):
            return found[0]
        self.removed += 1
        return f'{found[1]}"{REMOVED}"' if value.startswith('"') else f"{found[1]}{REMOVED}"


def _is_secret(name: str) -> bool:
    return _IS_SECRET.search(name) is not None and _DIRECTORY.search(name) is None
