"""Tab completion: the script for a shell, and values from the cluster: topics, groups, brokers, contexts.

A parameter is completed by what it is called, so that every command has it without naming it. A cluster that does not
answer at once completes nothing: a shell that hangs would be worse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from typer._completion_shared import get_completion_script

from pyromq.admin import AdminClient
from pyromq.admin.contexts import Contexts
from pyromq.cli.arguments import COMPLETION, namesrv_addresses
from pyromq.cli.cluster_choice import cluster_choice
from pyromq.client.environment import environment_credentials
from pyromq.protocol.names import BUILT_IN_GROUPS, DLQ_PREFIX, RETRY_PREFIX, is_system_group, is_system_topic
from pyromq.remoting.loop import run

PATIENCE: Final = 1.5
"""Seconds to wait for the cluster."""
SHELLS: Final = ("bash", "zsh", "fish")

Names = Callable[[AdminClient], Awaitable[Iterable[str]]]


async def _topics(admin: AdminClient) -> Iterable[str]:
    return await admin.topics.names()


async def _groups(admin: AdminClient) -> Iterable[str]:
    return await admin.groups.names()


async def _brokers(admin: AdminClient) -> Iterable[str]:
    return await admin.masters()


_IN_CLUSTER: Final[dict[str, Names]] = {"topic": _topics, "group": _groups, "broker": _brokers}
_KINDS: Final = {
    "topic": "topic",
    "to_topic": "topic",
    "group": "group",
    "ignore_group": "group",
    "source": "group",
    "target": "group",
    "broker": "broker",
    "context": "context",
}
_NAME_OF: Final = {"context": "context", "cluster promote": "broker"}
"""What an argument called `name` is, by the words of its command."""


def add_completion(command: Any, words: str) -> None:
    """Have the parameters of a command, and of those within it, completed by what they are called."""
    for parameter in getattr(command, "params", ()):
        kind = _kind(parameter, words)
        if kind is not None and parameter._custom_shell_complete is None:
            parameter._custom_shell_complete = _completer(kind)
    for name, inner in getattr(command, "commands", {}).items():
        add_completion(inner, f"{words} {name}")


def _kind(parameter: Any, words: str) -> str | None:
    if parameter.name == "name" and parameter.param_type_name == "argument":
        return next((kind for start, kind in _NAME_OF.items() if words.startswith(start)), None)
    is_text = parameter.metavar in (None, "TOPIC", "GROUP", "SOURCE", "TARGET", "NAME", "BROKER")
    return _KINDS.get(parameter.name) if is_text else None


def _completer(kind: str) -> Callable[[Any, Any, str], list[Any]]:
    def complete(ctx: Any, parameter: Any, incomplete: str) -> list[Any]:
        names = known_names(ctx, kind)
        return [name for name in names if name.startswith(incomplete) and _is_wanted(kind, name, incomplete)]

    return complete


def known_names(ctx: Any, kind: str) -> list[str]:
    """Return all names of a kind in the cluster of a command; none if it does not answer at once."""
    try:
        return list(Contexts().all) if kind == "context" else _ask(ctx, kind)
    except Exception:  # whatever it is, it must not end in the user's line
        return []


def _ask(ctx: Any, kind: str) -> list[str]:
    with cluster_choice(ctx, writes=False, asks_itself=True, name=""):
        return run(_names(namesrv_addresses(ctx.params.get("namesrv")), _IN_CLUSTER[kind]))


async def _names(namesrv: str, names: Names) -> list[str]:
    async with asyncio.timeout(PATIENCE), AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return sorted(await names(admin))


def _is_wanted(kind: str, name: str, incomplete: str) -> bool:
    """Leave out RocketMQ's own names, unless one has been begun."""
    if incomplete and name.startswith(incomplete) and len(incomplete) > 1:
        return True
    if kind == "topic":
        return not (is_system_topic(name) or name.startswith((RETRY_PREFIX, DLQ_PREFIX)))
    return kind != "group" or not (name in BUILT_IN_GROUPS or is_system_group(name))


def completion_script(shell: str) -> str:
    """Return the script that a shell has to run."""
    return get_completion_script(prog_name="pyromq", complete_var=COMPLETION, shell=shell)
