"""Where each page stands on the site, and how links between files become links between pages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent

SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Start": ("guide", "comparison"),
    "Concepts": (
        "app",
        "topics",
        "groups",
        "messages",
        "retries",
        "delay_levels",
        "timer",
        "transactions",
        "idempotence",
        "integrations",
        "filter_functions",
        "traces",
        "acl",
        "testing",
    ),
    "Operate": (
        "deploy",
        "configuration",
        "console",
        "terminal",
        "operations",
        "metrics",
        "ha",
        "backup",
        "upgrade",
        "migrate",
        "differences",
        "mqadmin",
    ),
    "Spark": (
        "spark_source",
        "spark_store",
        "spark_sink",
        "spark_cluster",
        "pipelines",
        "report",
    ),
    "Internals": ("architecture", "performance", "benchmarks", "interop"),
}
"""The pages of `docs/` in the order in which they are read; one that is listed nowhere comes last in "Operate"."""

_OUTSIDE: Final = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
_FENCE: Final = re.compile(r"^( *)(```+|~~~+).*?^\1\2[^\S\n]*$", re.MULTILINE | re.DOTALL)
_LANGUAGES: Final = {".py": "python", ".yml": "yaml", ".yaml": "yaml", ".json": "json", ".conf": "properties"}


def navigation(commands: list[str], api: list[str]) -> list[dict[str, Any]]:
    """Return mkdocs' `nav`."""
    found = {path.stem for path in (ROOT / "docs").glob("*.md")}
    listed = {name for names in SECTIONS.values() for name in names}
    sections: list[dict[str, Any]] = []
    for title, names in SECTIONS.items():
        more = sorted(found - listed) if title == "Operate" else []
        sections.append({title: [f"{name}.md" for name in (*names, *more) if name in found]})
    sections[0]["Start"] = ["index.md", *sections[0]["Start"], "changelog.md"]
    sections.insert(-1, {"Reference": [{"Commands": commands}, {"Python API": api}]})
    sections[-1]["Internals"].append("contributing.md")
    return sections


def site_path(path: str) -> str:
    """Return the page that shows a file of the repository."""
    if path.startswith("docs/") and path.endswith((".md", ".png", ".svg")):
        return path.removeprefix("docs/")
    return _OUTSIDE.get(path, f"files/{path}.md")


def rewritten(markdown: str, path: str) -> str:
    """Return the text of a file of the repository with links to the pages of the site."""
    home, page = os.path.dirname(path), os.path.dirname(site_path(path))

    def to_page(text: str, target: str) -> str:
        file, hash_mark, anchor = target.partition("#")
        goal = os.path.normpath(os.path.join(home, file))
        if text.endswith(".md"):  # a file's name says nothing on the site
            text = _title(goal) or text
        return f"[{text}]({os.path.relpath(site_path(goal), page or '.')}{hash_mark}{anchor})"

    return _map_links(markdown, to_page)


def linked_files(markdown: str, path: str) -> Iterator[str]:
    """Yield the files of the repository that a page links to."""
    found: list[str] = []

    def note(text: str, target: str) -> str:
        found.append(os.path.normpath(os.path.join(os.path.dirname(path), target.partition("#")[0])))
        return text

    _map_links(markdown, note)
    yield from found


def outside_pages() -> dict[str, str]:
    """Return the pages of files that are not in `docs/`: those at the top, and every file that a page links to."""
    sources = [*_OUTSIDE, *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
    texts = {path: (ROOT / path).read_text() for path in sources}
    pages = {site_path(path): rewritten(texts[path], path) for path in _OUTSIDE}
    for path, text in texts.items():
        for file in linked_files(text, path):
            if site_path(file).startswith("files/") and (ROOT / file).is_file():
                pages[site_path(file)] = _as_page(file)
    return pages


def _map_links(markdown: str, change: Callable[[str, str], str]) -> str:
    """Change the links to files, those outside of code."""

    def changed(match: re.Match[str]) -> str:
        text, target = match.groups()
        return match[0] if ":" in target or target.startswith("#") else change(text, target)

    parts, last = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_LINK.sub(changed, markdown[last : fence.start()]), fence[0]]
        last = fence.end()
    return "".join([*parts, _LINK.sub(changed, markdown[last:])])


def _title(path: str) -> str:
    """Return the first heading of a page; nothing if there is no such page."""
    file = ROOT / path
    found = re.search(r"^# (.+)$", file.read_text(), re.MULTILINE) if path.endswith(".md") and file.exists() else None
    return found[1] if found else ""


def _as_page(path: str) -> str:
    """Return a page with the text of a file."""
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        return rewritten(text, path)
    language = _LANGUAGES.get(Path(path).suffix, "text")
    return f"# {path}\n\n````{language}\n{text}````\n"
