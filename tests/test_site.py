"""The documentation site is built by `make docs`; here are the parts that do not need a build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import pyromq
from docsite.api import api_pages
from docsite.commands import command_pages
from docsite.doctests import fenced
from docsite.pages import SECTIONS, linked_files, navigation, outside_pages, rewritten, site_path
from tests.cli.test_help import PAGES

ROOT = Path(__file__).parent.parent
SOURCES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def flat(entries: list[Any]) -> list[str]:
    """Return the pages of a navigation in their order."""
    found = []
    for entry in entries:
        for below in entry.values() if isinstance(entry, dict) else [[]]:
            found += flat(below)
        found += [entry] if isinstance(entry, str) else []
    return found


def test_every_page_is_in_the_navigation_once() -> None:
    pages = flat(navigation(list(command_pages()), list(api_pages())))
    assert len(pages) == len(set(pages))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} < set(pages)
    assert pages[0] == "index.md"
    assert [next(iter(section)) for section in navigation([], [])] == [
        "Start",
        "Concepts",
        "Operate",
        "Spark",
        "Reference",
        "Internals",
    ]


def test_no_page_is_listed_twice() -> None:
    names = [name for section in SECTIONS.values() for name in section]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.name))
def test_a_link_of_a_page_leads_to_a_file_and_to_a_page(path: Path) -> None:
    name, generated = path.relative_to(ROOT).as_posix(), outside_pages()
    for file in linked_files(path.read_text(), name):
        assert (ROOT / file).is_file(), f"{file}: folders have no page"
        assert (ROOT / "docs" / site_path(file)).exists() or site_path(file) in generated


def test_links_are_those_of_the_site() -> None:
    text = "See [docs/ha.md](docs/ha.md#by-hand), [the log](CHANGELOG.md).\n\n```md\n[x](docs/ha.md)\n```\n"
    assert rewritten(text, "README.md") == (
        "See [Master and slaves](ha.md#by-hand), [the log](changelog.md).\n\n```md\n[x](docs/ha.md)\n```\n"
    )
    code = rewritten("[a program](../examples/groups.py), [elsewhere](https://x.org), [here](#a)", "docs/x.md")
    assert code == "[a program](files/examples/groups.py.md), [elsewhere](https://x.org), [here](#a)"


def test_every_command_and_option_is_on_a_page() -> None:
    text = "\n".join(command_pages().values()).replace(r"\|", "|")
    for words, command in PAGES.items():
        assert words == "" or f"# pyromq {words}\n" in text
        for parameter in command.params:
            names, _ = parameter.get_help_record(typer.Context(command)) or ("", "")
            assert f"| `{names}` |" in text
        examples = (command.epilog or "").splitlines()[1:]
        assert not examples or "```sh\n" + "\n".join(examples) + "\n```" in text


def test_every_public_name_is_on_a_page() -> None:
    text = "\n".join(api_pages().values())
    names = [name for name in pyromq.__all__ if pyromq._HOMES[name] != "errors"]
    assert [name for name in names if f"::: pyromq.{pyromq._HOMES[name]}.{name}\n" not in text] == []
    assert "::: pyromq.admin.admin_client.AdminClient\n" in text
    assert "::: pyromq.blocking.Producer\n" in text


def test_examples_in_docstrings_become_code() -> None:
    text = "Sends.\n\n>>> with x:\n...     y()\n1\n\nMore."
    assert fenced(text) == "Sends.\n\n```pycon\n>>> with x:\n...     y()\n1\n```\n\nMore."


def test_the_site_fetches_nothing_from_other_hosts_and_fails_on_broken_links() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert settings["strict"] is True
    assert settings["theme"]["font"] is False
    links = settings["validation"]["links"]
    assert set(links.values()) == {"warn"}
    assert settings["site_dir"].startswith("build/")
