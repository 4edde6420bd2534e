"""ConsoleParts: what all visits of one console share."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from pyromq.admin.admin_client import AdminClient
from pyromq.clock import Clock
from pyromq.console.audit import AuditLog
from pyromq.console.bodies.schema_store import SchemaStore
from pyromq.console.jobs import Jobs
from pyromq.console.live.hub import LiveHub
from pyromq.console.live.tails import Tails
from pyromq.console.login.sign_in import SignIn
from pyromq.console.reading.history import FigureHistory
from pyromq.console.reading.queue_rates import QueueRates
from pyromq.console.reading.reader import SnapshotReader
from pyromq.console.web.settings import ConsoleSettings
from pyromq.pipelines.jobs.jobs import PipelineJobs


class ConsoleParts(Struct, frozen=True, kw_only=True):
    """The parts of a console."""

    settings: ConsoleSettings
    clock: Clock
    admin: Callable[[], AdminClient]
    """The console's own client; raises ClientError while there is none."""
    reader: SnapshotReader
    history: FigureHistory
    queue_rates: QueueRates
    hub: LiveHub
    tails: Tails
    sign_in: SignIn
    audit: AuditLog
    jobs: Jobs
    schemas: SchemaStore
    """Descriptors and schemas of bodies that operators uploaded."""
    pipelines: Callable[[], PipelineJobs]
    """Jobs that run pipelines in processes of their own."""
