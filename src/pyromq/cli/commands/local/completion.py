"""`pyromq completion`: the script that makes a shell complete commands, topics and groups."""

from __future__ import annotations

from typing import Annotated

import typer

from pyromq.cli.completion import SHELLS, completion_script
from pyromq.cli.family import Family

app = Family()


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="The shell: bash, zsh or fish.")],
) -> None:
    """Print the script that makes a shell complete commands and names.

    Verbs and options are completed, and the topics, groups and brokers of the cluster, if it answers within 1.5 s.
    For bash and zsh put the example into ~/.bashrc or ~/.zshrc (there behind compinit, and with zsh).
    """
    if shell not in SHELLS:
        raise typer.BadParameter(f"SHELL must be one of {', '.join(SHELLS)}, not {shell!r}")
    print(completion_script(shell))
