"""What mkdocs calls while it builds the site (`hooks` in mkdocs.yml)."""

from __future__ import annotations

from functools import cache
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docsite.api import api_pages
from docsite.commands import command_pages
from docsite.pages import navigation, outside_pages, rewritten


@cache
def _generated() -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    return outside_pages(), command_pages(), api_pages()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages in order."""
    _, commands, api = _generated()
    config.nav = navigation(list(commands), list(api))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in `docs/`."""
    for pages in _generated():
        for path, text in pages.items():
            files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links of a page of `docs/` that leave that folder stay on the site."""
    return markdown if page.file.generated_by else rewritten(markdown, f"docs/{page.file.src_uri}")
