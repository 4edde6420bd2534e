"""Text of strangers with its invisible characters made visible."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Final

_KEPT: Final = "\n\t"


def visible(text: str) -> str:
    """Return the text with control characters as pictures; marks that turn the direction of writing get a name."""
    return "".join(map(_shown, text)) if not text.isprintable() else text


@cache
def _shown(character: str) -> str:
    if character in _KEPT or character.isprintable():
        return character
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if unicodedata.category(character) in ("Zs", "Zl", "Zp"):
        return character if unicodedata.category(character) == "Zs" else "⏎"
    return f"⟨U+{code:04X}⟩"
