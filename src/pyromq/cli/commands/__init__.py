"""The verbs of `pyromq`, one module for each family; `cli.verbs.VERBS` maps a verb to its module.

A module has a Typer `app`. The single verbs `up`, `namesrv` and `broker` are in `servers`; `send` and `tail` have their
own modules, and `health` is a room for `doctor`, `top`, `check` and `debug`. Every other family is a group of verbs
with the name of its module. Errors are raised as PyroMQError and become one line on stderr; wrong usage is
`typer.BadParameter`, exit code 2.
"""
