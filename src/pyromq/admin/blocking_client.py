"""AdminClient without `async`, theme by theme; its public name is `pyromq.blocking.AdminClient`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyromq.admin import admin_client, dead_letters, timed_messages, traces, transactions
from pyromq.admin.groups import groups
from pyromq.admin.topics import topics
from pyromq.client.net.address import DEFAULT_NAMESRV
from pyromq.client.portal import BlockingClient, Portal, iterates, waits
from pyromq.clock import Clock
from pyromq.protocol.acl import Credentials


class _Theme:
    """One theme; its calls run on the portal's loop."""

    def __init__(self, portal: Portal, client: Any) -> None:
        self._portal = portal
        self._client = client


class DeadLetters(_Theme):
    """Dead letters; `pyromq.admin.DeadLetters` without `await`."""

    groups = waits(dead_letters.DeadLetters.groups)
    read = iterates(dead_letters.DeadLetters.read)
    resend = waits(dead_letters.DeadLetters.resend)
    resend_all = iterates(dead_letters.DeadLetters.resend_all)


class TimedMessages(_Theme):
    """Messages that wait for their delivery time; `pyromq.admin.TimedMessages` without `await`."""

    pending = iterates(timed_messages.TimedMessages.pending)
    count = waits(timed_messages.TimedMessages.count)
    cancel = waits(timed_messages.TimedMessages.cancel)


class Transactions(_Theme):
    """Transactions without a known end; `pyromq.admin.Transactions` without `await`."""

    pending = iterates(transactions.Transactions.pending)
    given_up = iterates(transactions.Transactions.given_up)
    resume = waits(transactions.Transactions.resume)


class Traces(_Theme):
    """Message traces; `pyromq.admin.Traces` without `await`."""

    of = waits(traces.Traces.of)
    by_key = waits(traces.Traces.by_key)


class Groups(_Theme):
    """Consumer groups; `pyromq.admin.Groups` without `await`."""

    list = waits(groups.Groups.list)
    describe = waits(groups.Groups.describe)
    plan_reset = waits(groups.Groups.plan_reset)
    reset = waits(groups.Groups.reset)
    plan_clone = waits(groups.Groups.plan_clone)
    clone = waits(groups.Groups.clone)
    plan_set = waits(groups.Groups.plan_set)
    set = waits(groups.Groups.set)
    plan_delete = waits(groups.Groups.plan_delete)
    delete = waits(groups.Groups.delete)


class Topics(_Theme):
    """Topics; `pyromq.admin.Topics` without `await`."""

    names = waits(topics.Topics.names)
    list = waits(topics.Topics.list)
    describe = waits(topics.Topics.describe)
    plan_create = waits(topics.Topics.plan_create)
    create = waits(topics.Topics.create)
    plan_set = waits(topics.Topics.plan_set)
    set = waits(topics.Topics.set)
    plan_delete = waits(topics.Topics.plan_delete)
    delete = waits(topics.Topics.delete)
    plan_resize = waits(topics.Topics.plan_resize)
    resize = iterates(topics.Topics.resize)


class AdminClient(BlockingClient):
    """Looks at a cluster and changes it; `pyromq.admin.AdminClient` without `await`.

    >>> with AdminClient("127.0.0.1:9876") as admin:
    ...     for finding in admin.groups.describe("billing").findings:
    ...         print(finding)
    """

    _client: admin_client.AdminClient

    def __init__(
        self,
        namesrv: str | Sequence[str] = DEFAULT_NAMESRV,
        *,
        credentials: Credentials | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(admin_client.AdminClient(namesrv, credentials=credentials, clock=clock))

    def start(self) -> None:
        """Open the client; `with` does it for you."""
        super().start()
        self.dead_letters = DeadLetters(self._portal, self._client.dead_letters)
        self.timed_messages = TimedMessages(self._portal, self._client.timed_messages)
        self.traces = Traces(self._portal, self._client.traces)
        self.transactions = Transactions(self._portal, self._client.transactions)
        self.groups = Groups(self._portal, self._client.groups)
        self.topics = Topics(self._portal, self._client.topics)

    masters = waits(admin_client.AdminClient.masters)
    cluster_status = waits(admin_client.AdminClient.cluster_status)
    plan_promotion = waits(admin_client.AdminClient.plan_promotion)
    promote = waits(admin_client.AdminClient.promote)
    read = iterates(admin_client.AdminClient.read)
