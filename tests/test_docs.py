"""The pages: lines that fit a screen, links and file names that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
LINE = 120
TABLE_LINE = 160
FOLDERS = "src|tests|interop|bench|examples|docs|pyromq|" + "|".join(
    path.name for path in (ROOT / "src" / "pyromq").iterdir() if path.is_dir()
)
_FILE = re.compile(rf"(?<![\w/.])((?:{FOLDERS})/[\w/]+\.(?:py|md|xml|java|toml))\b")
_LINK = re.compile(r"\]\(([^)#:]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_a_line_fits_a_screen(page: Path) -> None:
    lines = page.read_text().splitlines()
    assert [line for line in lines if len(line) > (TABLE_LINE if line.startswith("|") else LINE)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_a_page_names_files_that_exist(page: Path) -> None:
    text = page.read_text()
    homes = (ROOT, ROOT / "src", ROOT / "src" / "pyromq")
    assert [name for name in _FILE.findall(text) if not any((home / name).exists() for home in homes)] == []
    assert [link for link in _LINK.findall(text) if not (page.parent / link).exists()] == []
