"""A page for each verb of `pyromq`: what its help says, from the same tree of commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import typer
from typer.core import TyperGroup

from pyromq.cli.verbs import app

FOLDER: Final = "commands"


def command_pages() -> dict[str, str]:
    """Return the pages by their place on the site, in the order of `pyromq --help`."""
    root = typer.main.get_command(app)
    context = typer.Context(root, info_name="pyromq")
    assert isinstance(root, TyperGroup)
    verbs = {verb: root.get_command(context, verb) for verb in root.list_commands(context)}
    pages = {f"{FOLDER}/index.md": _overview(root, verbs)}
    for verb, command in verbs.items():
        sections = [_section(words, one) for words, one in _below((verb,), command)]
        pages[f"{FOLDER}/{verb}.md"] = "\n".join(sections)
    return pages


def _below(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    if isinstance(command, TyperGroup):
        context = typer.Context(command, info_name=" ".join(words))
        for name in command.list_commands(context):
            yield from _below((*words, name), command.get_command(context, name))


def _overview(root: Any, verbs: dict[str, Any]) -> str:
    lines = ["# Commands", "", _text(root.help), "", "| verb | does |", "| --- | --- |"]
    lines += [f"| [`{verb}`]({verb}.md) | {_summary(command)} |" for verb, command in verbs.items()]
    lines += ["", "These options come before the verb:", "", *_parameters(root, typer.Context(root))]
    lines += ["", *_examples(root.epilog or "")]
    return "\n".join(lines) + "\n"


def _section(words: tuple[str, ...], command: Any) -> str:
    name = "pyromq " + " ".join(words)
    context = typer.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    lines = [f"{'#' * min(len(words), 4)} {name}", "", _text(command.help), ""]
    if not isinstance(command, TyperGroup):
        lines += ["```text", usage, "```", "", *_parameters(command, context)]
    if command.epilog:
        lines += ["", *_examples(command.epilog)]
    return "\n".join(lines) + "\n"


def _examples(epilog: str) -> list[str]:
    """Return the lines below the options: a title, then commands."""
    title, *commands = epilog.splitlines()
    return [title, "", "```sh", *commands, "```"] if commands else [_text(epilog)]


def _parameters(command: Any, context: Any) -> list[str]:
    records = [parameter.get_help_record(context) for parameter in command.params]
    rows = [f"| `{_cell(names)}` | {_cell(_text(text))} |" for names, text in filter(None, records)]
    return ["| argument or option | what it is |", "| --- | --- |", *rows] if rows else []


def _summary(command: Any) -> str:
    return _cell(_text(command.help).split("\n\n")[0])


def _text(text: str | None) -> str:
    """Return a help text as Markdown: without Click's and Rich's marks, lines that must stay as they are as code."""
    parts = []
    for paragraph in (text or "").replace("\\[", "[").split("\n\n"):
        if paragraph.lstrip().startswith("\b"):
            lines = paragraph.replace("\b", "").strip("\n").splitlines()
            parts.append("\n".join(["```text", *(line.strip() for line in lines if line.strip()), "```"]))
        else:
            parts.append(" ".join(paragraph.split()).replace("<", "&lt;"))
    return "\n\n".join(parts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
