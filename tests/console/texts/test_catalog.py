"""Every text of the console is there in Chinese, with the same values in it."""

from __future__ import annotations

import re

from pyromq.console.texts.catalog import CHINESE, texts_of, translator, wanted_language
from tests.console.texts.found_texts import texts

SAME = {"{finding}"}
"""What brokers say of themselves, in their own words."""


def values(text: str) -> list[str]:
    return sorted(re.findall(r"\{(\w+)\}", text))


def test_every_text_is_translated() -> None:
    missing = sorted(texts() - texts_of(CHINESE).keys() - SAME)
    assert not missing, f"{len(missing)} texts are missing in console/texts/zh: {missing}"


def test_a_translation_has_the_values_of_its_text() -> None:
    wrong = {text: told for text, told in texts_of(CHINESE).items() if values(text) != values(told)}
    assert not wrong


def test_a_missing_text_stays_english() -> None:
    assert translator(CHINESE)("Nobody translates {what}", what="this") == "Nobody translates this"


def test_the_browser_says_the_language() -> None:
    assert wanted_language("zh-CN,zh;q=0.9,en;q=0.8") == "zh"
    assert wanted_language("fr;q=0.9, de") == "en"
