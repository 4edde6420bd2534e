"""AdminClient without `async`, theme by theme; its public name is `pyromq.blocking.AdminClient`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Self

from pyromq.admin import admin_client, clients, timed_messages, transactions
from pyromq.admin.contexts import required_context
from pyromq.admin.groups import groups
from pyromq.admin.letters import dead_letters
from pyromq.admin.maintenance import accounts, audit, key_values, settings
from pyromq.admin.messages import messages, traces
from pyromq.admin.messages.search import MessageSearch, SearchStop, TimeRange
from pyromq.admin.topics import topics
from pyromq.client.portal import BlockingClient, Bridge, iterates, waits
from pyromq.clock import Clock
from pyromq.protocol.acl import Credentials
from pyromq.remoting.tls.client_tls import Tls

P = ParamSpec("P")


class _Theme:
    """One theme; its calls run on the portal's loop."""

    def __init__(self, portal: Bridge, client: Any) -> None:
        self._portal = portal
        self._client = client


class DeadLetters(_Theme):
    """Dead letters; `pyromq.admin.DeadLetters` without `await`."""

    groups = waits(dead_letters.DeadLetters.groups)
    read = iterates(dead_letters.DeadLetters.read)
    causes = waits(dead_letters.DeadLetters.causes)
    tries = waits(dead_letters.DeadLetters.tries)
    resend = waits(dead_letters.DeadLetters.resend)
    resend_all = iterates(dead_letters.DeadLetters.resend_all)


class TimedMessages(_Theme):
    """Messages that wait for their delivery time; `pyromq.admin.TimedMessages` without `await`."""

    pending = iterates(timed_messages.TimedMessages.pending)
    count = waits(timed_messages.TimedMessages.count)
    plan_cancel = waits(timed_messages.TimedMessages.plan_cancel)
    cancel = waits(timed_messages.TimedMessages.cancel)
    histogram = waits(timed_messages.TimedMessages.histogram)
    levels = waits(timed_messages.TimedMessages.levels)


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

    names = waits(groups.Groups.names)
    list = waits(groups.Groups.list)
    describe = waits(groups.Groups.describe)
    advise = waits(groups.Groups.advise)
    stacks = waits(groups.Groups.stacks)
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


class FoundMessages(_Theme):
    """A search for messages; `pyromq.admin.MessageSearch` without `await`. Iterate over it once."""

    _client: MessageSearch
    __iter__ = iterates(MessageSearch.__aiter__)

    @property
    def stopped(self) -> SearchStop | None:
        """Why it stopped before its end; None if it has not, or came to its end."""
        return self._client.stopped

    @property
    def rest(self) -> TimeRange | None:
        """What it has not looked at yet, None at its end."""
        return self._client.rest

    @property
    def looked_at(self) -> int:
        """How many messages it has looked at."""
        return self._client.looked_at

    @property
    def found(self) -> int:
        """How many of them matched."""
        return self._client.found

    @property
    def silent_brokers(self) -> Mapping[str, str]:
        """Brokers that did not answer, and why. Their messages are missing."""
        return self._client.silent_brokers


def _searches(method: Callable[Concatenate[Any, P], MessageSearch]) -> Callable[Concatenate[Any, P], FoundMessages]:
    def find(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> FoundMessages:
        return FoundMessages(self._portal, method(self._client, *args, **kwargs))

    functools.update_wrapper(find, method)
    return find


class Messages(_Theme):
    """Stored messages; `pyromq.admin.Messages` without `await`."""

    find = _searches(messages.Messages.find)
    get = waits(messages.Messages.get)
    consumed_by = waits(messages.Messages.consumed_by)
    resend = waits(messages.Messages.resend)
    plan_consume = waits(messages.Messages.plan_consume)
    consume = waits(messages.Messages.consume)


class Clients(_Theme):
    """Connected clients; `pyromq.admin.Clients` without `await`."""

    list = waits(clients.Clients.list)


class Settings(_Theme):
    """The configuration of servers; `pyromq.admin.Settings` without `await`."""

    of_brokers = waits(settings.Settings.of_brokers)
    of_name_servers = waits(settings.Settings.of_name_servers)
    plan_set = waits(settings.Settings.plan_set)
    set = waits(settings.Settings.set)


class KeyValues(_Theme):
    """The KV settings of the name servers; `pyromq.admin.KeyValues` without `await`."""

    list = waits(key_values.KeyValues.list)
    get = waits(key_values.KeyValues.get)
    set = waits(key_values.KeyValues.set)
    delete = waits(key_values.KeyValues.delete)


class ClusterAccounts(_Theme):
    """The accounts of a cluster; `pyromq.admin.maintenance.accounts.ClusterAccounts` without `await`."""

    check_own = waits(accounts.ClusterAccounts.check_own)
    list = waits(accounts.ClusterAccounts.list)
    get = waits(accounts.ClusterAccounts.get)
    add = waits(accounts.ClusterAccounts.add)
    set = waits(accounts.ClusterAccounts.set)
    remove = waits(accounts.ClusterAccounts.remove)


class Audit(_Theme):
    """The audit logs of all servers; `pyromq.admin.maintenance.audit.Audit` without `await`."""

    list = waits(audit.Audit.list)


class AdminClient(BlockingClient):
    """Looks at a cluster and changes it; `pyromq.admin.AdminClient` without `await`.

    >>> with AdminClient("127.0.0.1:9876") as admin:
    ...     for finding in admin.groups.describe("billing").findings:
    ...         print(finding)
    """

    _client: admin_client.AdminClient

    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        credentials: Credentials | None = None,
        tls: bool | Tls | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(admin_client.AdminClient(namesrv, credentials=credentials, tls=tls, clock=clock))

    @classmethod
    def from_context(cls, name: str | None = None, *, clock: Clock | None = None) -> Self:
        """Return a client for a context; see `pyromq.admin.AdminClient.from_context`."""
        context = required_context(name)
        return cls(context.namesrv, credentials=context.credentials, tls=context.tls, clock=clock)

    def start(self) -> None:
        """Open the client; `with` does it for you."""
        super().start()
        self.dead_letters = DeadLetters(self._portal, self._client.dead_letters)
        self.timed_messages = TimedMessages(self._portal, self._client.timed_messages)
        self.traces = Traces(self._portal, self._client.traces)
        self.transactions = Transactions(self._portal, self._client.transactions)
        self.groups = Groups(self._portal, self._client.groups)
        self.topics = Topics(self._portal, self._client.topics)
        self.messages = Messages(self._portal, self._client.messages)
        self.clients = Clients(self._portal, self._client.clients)
        self.settings = Settings(self._portal, self._client.settings)
        self.kv = KeyValues(self._portal, self._client.kv)
        self.accounts = ClusterAccounts(self._portal, self._client.accounts)
        self.audit = Audit(self._portal, self._client.audit)

    masters = waits(admin_client.AdminClient.masters)
    cluster_status = waits(admin_client.AdminClient.cluster_status)
    overview = waits(admin_client.AdminClient.overview)
    check = waits(admin_client.AdminClient.check)
    examine = waits(admin_client.AdminClient.examine)
    plan_promotion = waits(admin_client.AdminClient.plan_promotion)
    promote = waits(admin_client.AdminClient.promote)
    plan_pause_writes = waits(admin_client.AdminClient.plan_pause_writes)
    pause_writes = iterates(admin_client.AdminClient.pause_writes)
    resume_writes = waits(admin_client.AdminClient.resume_writes)
    plan_cleaning = waits(admin_client.AdminClient.plan_cleaning)
    clean = waits(admin_client.AdminClient.clean)
    read = iterates(admin_client.AdminClient.read)
