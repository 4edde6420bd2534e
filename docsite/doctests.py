"""Examples in docstrings (`>>> …`) as code: Markdown takes them for quotations."""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

_EXAMPLE: Final = re.compile(r"^>>> .*(?:\n(?!\n).*)*", re.MULTILINE)


class FencedExamples(griffe.Extension):
    """Puts a fence around each example that has none."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return a docstring with its examples in fences."""
    return _EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", text)
