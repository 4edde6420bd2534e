"""The `pyromq` command.

`main` turns whatever happens into output and an exit code. `verbs` finds the family of a verb and loads only that
module, so that `pyromq send` needs no broker and no web server. `commands` has one module for each family:
`commands/topic.py` is `pyromq topic`; `family` is their base. A command reads its arguments (types and parsers shared
by all are in `arguments`; those of servers in `server_settings`), calls the client, the operator's client or a server,
and prints: JSON from `pyromq.admin.views`, or lines and tables from `show`.

`send` keeps several sends in flight, from stdin or not. `bench` is the load generator behind `pyromq bench`. `pipeline`
makes a command from the options of each pipeline, and shows the progress of a run. `top` draws the live table.

`examples` has the last lines of every help page. `completion` answers shells that complete a line, and knows the names
of topics and groups for suggestions.
"""
