"""The programs of docs/integrations.md work, and the test among them passes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent.parent / "docs" / "integrations.md"


async def test_the_programs_of_the_page() -> None:
    programs = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    tests = 0
    for program in programs:
        names: dict[str, Any] = {"__name__": "shop"}
        exec(compile(program, str(PAGE), "exec", dont_inherit=True), names)
        if "test_a_new_order_is_billed" in names:
            await names["test_a_new_order_is_billed"]()
            tests += 1
    assert (len(programs), tests) == (3, 1)
