"""Translator: the texts of the console in one language."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

import msgspec

ENGLISH, CHINESE = "en", "zh"
LANGUAGES: Final = {ENGLISH: "English", CHINESE: "中文"}


class Translator:
    """Translates texts, which are their own keys; one that is missing stays English."""

    def __init__(self, language: str, texts: Mapping[str, str]) -> None:
        self.language = language
        self._texts = texts

    def __call__(self, text: str, /, **values: object) -> str:
        """Return the text in this language, with values in place of `{names}`."""
        found = self._texts.get(text, text)
        return found.format_map(values) if values else found


@cache
def texts_of(language: str) -> Mapping[str, str]:
    """Return all texts of a language, by their English."""
    if language == ENGLISH:
        return {}
    found: dict[str, str] = {}
    for file in sorted(resources.files(__package__).joinpath(language).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".json"):
            found |= msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    return found


@cache
def translator(language: str) -> Translator:
    """Return the translator of a language; English for one that there is not."""
    known = language if language in LANGUAGES else ENGLISH
    return Translator(known, texts_of(known))


def wanted_language(accepted: str) -> str:
    """Return the language that a browser asks for in Accept-Language."""
    for part in accepted.split(","):
        code = part.split(";")[0].strip().lower()[:2]
        if code in LANGUAGES:
            return code
    return ENGLISH
