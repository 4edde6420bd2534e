"""AdminClient without `async`, theme by theme; its public name is `pyromq.blocking.AdminClient`."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from pyromq.admin import admin_client as admin
from pyromq.admin import dead_letters as admin_dead_letters
from pyromq.admin import timed_messages as admin_delays
from pyromq.admin import topics as admin_topics
from pyromq.admin import traces as admin_traces
from pyromq.admin import transactions as admin_transactions
from pyromq.admin.groups import groups as admin_groups
from pyromq.client.net.address import DEFAULT_NAMESRV
from pyromq.client.portal import Portal, iterates, waits
from pyromq.clock import Clock
from pyromq.protocol.acl import Credentials


class _Theme:
    """What belongs together, done on the portal's loop."""

    def __init__(self, portal: Portal, client: Any) -> None:
        self._portal = portal
        self._client = client


class DeadLetters(_Theme):
    """What groups gave up; `pyromq.admin.DeadLetters` without `await`."""

    groups = waits(admin_dead_letters.DeadLetters.groups)
    read = iterates(admin_dead_letters.DeadLetters.read)
    resend = waits(admin_dead_letters.DeadLetters.resend)
    resend_all = iterates(admin_dead_letters.DeadLetters.resend_all)


class TimedMessages(_Theme):
    """Messages that wait for their time; `pyromq.admin.TimedMessages` without `await`."""

    pending = iterates(admin_delays.TimedMessages.pending)
    count = waits(admin_delays.TimedMessages.count)
    cancel = waits(admin_delays.TimedMessages.cancel)


class Transactions(_Theme):
    """Transactions whose end no broker knows; `pyromq.admin.Transactions` without `await`."""

    pending = iterates(admin_transactions.Transactions.pending)
    given_up = iterates(admin_transactions.Transactions.given_up)
    resume = waits(admin_transactions.Transactions.resume)


class Traces(_Theme):
    """Message traces; `pyromq.admin.Traces` without `await`."""

    of = waits(admin_traces.Traces.of)
    by_key = waits(admin_traces.Traces.by_key)


class Groups(_Theme):
    """Consumer groups; `pyromq.admin.Groups` without `await`."""

    list = waits(admin_groups.Groups.list)
    describe = waits(admin_groups.Groups.describe)
    plan_reset = waits(admin_groups.Groups.plan_reset)
    reset = waits(admin_groups.Groups.reset)
    plan_clone = waits(admin_groups.Groups.plan_clone)
    clone = waits(admin_groups.Groups.clone)
    plan_set = waits(admin_groups.Groups.plan_set)
    set = waits(admin_groups.Groups.set)
    plan_delete = waits(admin_groups.Groups.plan_delete)
    delete = waits(admin_groups.Groups.delete)


class Topics(_Theme):
    """Topics; `pyromq.admin.Topics` without `await`."""

    names = waits(admin_topics.Topics.names)
    list = waits(admin_topics.Topics.list)
    describe = waits(admin_topics.Topics.describe)


class AdminClient:
    """Looks after a cluster; `pyromq.admin.AdminClient` without `await`.

    >>> with AdminClient("127.0.0.1:9876") as admin:
    ...     for finding in admin.groups.describe("billing").findings:
    ...         print(finding)
    """

    def __init__(
        self,
        namesrv: str | Sequence[str] = DEFAULT_NAMESRV,
        *,
        credentials: Credentials | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._portal = Portal.shared()
        self._client = admin.AdminClient(namesrv, credentials=credentials, clock=clock)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Open the client; `with` does it for you."""
        self._portal.call(self._client.start())
        self.dead_letters = DeadLetters(self._portal, self._client.dead_letters)
        self.timed_messages = TimedMessages(self._portal, self._client.timed_messages)
        self.traces = Traces(self._portal, self._client.traces)
        self.transactions = Transactions(self._portal, self._client.transactions)
        self.groups = Groups(self._portal, self._client.groups)
        self.topics = Topics(self._portal, self._client.topics)

    def close(self) -> None:
        """Close the client; `with` does it for you. In a forked child do nothing."""
        if not self._portal.foreign:
            self._portal.call(self._client.close())

    masters = waits(admin.AdminClient.masters)
    read = iterates(admin.AdminClient.read)
