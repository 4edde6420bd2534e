"""`manage.py run_pyromq module:app`: the consumers of an App inside a Django project."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from pyromq.app.running.changes import SourceChanges
from pyromq.app.running.loading import load_app
from pyromq.app.running.serving import serve
from pyromq.app.running.supervisor import CANNOT_START, WORKER_VARIABLE, Supervisor
from pyromq.client.environment import environment_credentials
from pyromq.errors import PyroMQError
from pyromq.remoting.loop import run as run_loop


class Command(BaseCommand):
    """Runs an App as `pyromq run` does, with Django's settings and models loaded."""

    help = "Run the consumers of a pyromq.App. SIGTERM and Ctrl-C finish the messages in hand and exit with 0."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("target", metavar="module:app", help="the App, such as shop.messages:app")
        parser.add_argument("-n", "--namesrv", help="name servers, instead of those of the App")
        parser.add_argument("--workers", type=int, default=1, help="number of processes; each joins the groups")
        parser.add_argument("--reload", action="store_true", help="start again when a Python file changes")

    def handle(self, *args: Any, target: str, namesrv: str | None, workers: int, reload: bool, **options: Any) -> None:
        worker = os.environ.get(WORKER_VARIABLE)
        if worker is None and (workers > 1 or reload):
            changes = SourceChanges(Path.cwd()) if reload else None
            sys.exit(Supervisor([sys.executable, *sys.argv], workers, changes).run())
        try:
            loaded = load_app(target)
            loaded.use_cluster(namesrv, environment_credentials())
            run_loop(serve(loaded, self.stdout.write, supervised=worker is not None))
        except PyroMQError as error:
            raise CommandError(str(error), returncode=1 if worker is None else CANNOT_START) from None
