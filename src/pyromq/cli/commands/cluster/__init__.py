"""`pyromq cluster`: brokers and name servers, how they stand, and what operators do to them.

masters    status, promote
clients    who is connected
settings   config
writes     pause-writes, resume-writes
cleaning   clean
kv         the verbs of `cluster kv`
"""

from __future__ import annotations

from pyromq.cli.commands.cluster import cleaning, clients, kv, masters, settings, writes
from pyromq.cli.family import Family

app = Family(help="Brokers and name servers: how they stand, configuration, maintenance.")
app.command()(masters.status)
app.command()(masters.promote)
app.command()(clients.clients)
app.command("config")(settings.config)
app.command("pause-writes")(writes.pause_writes)
app.command("resume-writes")(writes.resume_writes)
app.command("clean")(cleaning.clean)
app.add_typer(kv.app, name="kv")
