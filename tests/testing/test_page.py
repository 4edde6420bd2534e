"""The example of docs/testing.md works."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "testing.md"


def test_the_example_of_the_page_is_a_test_that_passes() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    test = names["test_the_shop_survives_the_death_of_a_broker"]
    assert callable(test)
    test()
