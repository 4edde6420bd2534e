"""AccessControl: decides about every request before its handler runs.

    white-listed address?   only where white lists are trusted
    account                 the ext field AccessKey names it
    signature               compared in constant time, before the body is parsed
    right                   of the request's code (decisions.py); a code without a row needs an administrator

A connection whose account is removed, or loses a right, is closed: pulls that wait on it would still be answered.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from msgspec import Struct

from pyromq.access.account import PUB, Account, Permission
from pyromq.access.accounts import Accounts, AccountSet
from pyromq.access.address_patterns import matcher
from pyromq.access.decisions import (
    Fields,
    decide,
    decide_as_apache,
    may_publish,
    need_admin,
    need_group,
    need_topic,
)
from pyromq.access.message_topic import stored_topic
from pyromq.access.refusals import Refusals
from pyromq.access.replays import Replays
from pyromq.access.signatures import Verifier
from pyromq.clock import Clock
from pyromq.errors import AccessRefused, UnknownCaller
from pyromq.figures import BoundFigures
from pyromq.lane.callers import MAX_SIGNED_BODY, Caller
from pyromq.protocol.acl import ACCESS_KEY, NONCE, Credentials
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.headers.signed_send import SignedSendHeader
from pyromq.protocol.names import RETRY_PREFIX
from pyromq.remoting.audit.access_log import AccessLog
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import HandlerResult, RequestTable

logger = logging.getLogger(__name__)

_ACCOUNTS: Final = "access_accounts"
"""The attribute of a connection with the access keys that came in over it."""
_CALLER: Final = "access_caller"
"""The attribute with the account of its last request, as it was found in the accounts of that moment."""
_TRUSTED: Final = ""
"""What stands there for requests that a white list let in."""
_MOST_TOPICS: Final = 10_000
"""Topics of an account that are known to be open to it."""


class AccessRules(Struct, frozen=True, kw_only=True):
    """What an operator decides about access control."""

    home: Path
    """The directory with `conf/plain_acl.yml`."""
    trusts_white_list: bool = False
    """Whether an address in a white list replaces a signature (`pyromqAclTrustWhiteList`)."""
    is_compatible: bool = False
    """Whether to decide exactly as RocketMQ 4.9 (`pyromqAclCompatible`)."""
    requires_tls: bool = False
    """Whether signed requests are refused on plain connections (`pyromqAclRequireTls`)."""
    own: Credentials | None = None
    """An administrator that exists only within this process."""


class _Caller(NamedTuple):
    """Who sent the last request of a connection: nearly always who sends the next one."""

    accounts: AccountSet
    access_key: str
    account: Account
    verifier: Verifier
    known: Caller
    """What the lane knows of it, the same for all connections of an account."""


class AccessControl:
    """Lets requests in, or raises AccessRefused; an async context manager that follows its files while it is open."""

    def __init__(self, rules: AccessRules, table: RequestTable, clock: Clock, log: AccessLog | None = None) -> None:
        self.accounts = Accounts(rules.home / "conf", clock, rules.own)
        self.refusals = Refusals(clock)
        self._log = log or AccessLog(table)
        self._replays = Replays(clock)
        self._requires_tls = rules.requires_tls
        self._compatible = rules.is_compatible
        self._trusts = rules.trusts_white_list or rules.is_compatible
        self._checks = decide_as_apache(table) if rules.is_compatible else decide(table)
        self._connections: dict[str, set[Connection]] = {}
        self._verifiers: dict[str, Verifier] = {}
        self._known: dict[str, Caller] = {}
        self.accounts.on_change.append(self._accounts_changed)

    async def __aenter__(self) -> Self:
        """Read the accounts and follow their files; raise ConfigError."""
        self.accounts.load()
        self.accounts.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.accounts.stop()

    def figures(self) -> BoundFigures[Refusals]:
        """Return the figures of access control."""
        return self.refusals.figures()

    # --- every request

    def guard(self, request: RemotingCommand, connection: Connection) -> HandlerResult:
        """Return None if the request may be handled, else its answer."""
        try:
            self.admit(request, connection)
        except AccessRefused as error:
            self._log.refused(request, connection, error)
            return self.refusals.answer(request, connection, error)
        return None

    def admit(self, request: RemotingCommand, connection: Connection) -> None:
        """Return if the request may be handled; else raise AccessRefused."""
        ext = request.ext
        if type(ext) is SignedSendHeader:
            if self._admits_send(ext, request, connection):
                return
            request.read_plainly()
            ext = request.ext
        fields: Fields = ext if isinstance(ext, dict) else request.ext_fields
        if self._trusts and self.accounts.current.is_white(host_of(connection)):
            self._note(connection, _TRUSTED)
            return
        caller = connection.attributes.get(_CALLER)
        if (
            isinstance(caller, _Caller)
            and caller.accounts is self.accounts.current
            and caller.access_key == fields.get(ACCESS_KEY)
            and not (self._trusts or self._requires_tls)
        ):
            account = caller.account
            self._check_signature(caller.verifier, fields, request)
        else:
            account = self._authenticate(fields, request, connection)
            self._note(connection, account.access_key)
            connection.attributes[_CALLER] = _Caller(
                self.accounts.current, account.access_key, account, self._verifier_of(account), self._known_of(account)
            )
        self._check_rights(account, request.code, fields)

    def _check_rights(self, account: Account, code: int, fields: Fields) -> None:
        if not account.admin:
            self._checks.get(code, need_admin)(account, fields)
        elif self._compatible and (account.topics or account.groups) and self._checks[code] is not need_admin:
            self._checks[code](account, fields)

    def _admits_send(self, header: SignedSendHeader, request: RemotingCommand, connection: Connection) -> bool:
        """Return True if a send is like those before it on its connection and may be handled; False to look closely.

        It may be a good one even so, such as the first one, or one that is written in another way. Raise AccessRefused
        if it was sent before.
        """
        caller = connection.attributes.get(_CALLER)
        if (
            not isinstance(caller, _Caller)
            or caller.accounts is not self.accounts.current
            or caller.access_key != header.access_key
            or self._trusts
            or len(request.body) > MAX_SIGNED_BODY
            or not caller.verifier.is_signature(header.signature, header.signed_text(), request.body)
        ):
            return False
        topic, open_to_it = header.topic, caller.known.topics
        if topic not in open_to_it:
            if not caller.account.admin and (
                topic.startswith(RETRY_PREFIX) or not may_publish(caller.account.on_topic(topic), PUB)
            ):
                return False
            if len(open_to_it) >= _MOST_TOPICS:
                open_to_it.clear()
            open_to_it.add(topic)
        if header.nonce:
            self._replays.check_values(request.code, header.signed_code, header.signed_at, header.nonce)
        return True

    def _authenticate(self, fields: Fields, request: RemotingCommand, connection: Connection) -> Account:
        access_key = fields.get(ACCESS_KEY)
        if not access_key:
            raise UnknownCaller("No accessKey is configured")
        if self._requires_tls and not connection.is_encrypted:
            raise UnknownCaller("signed requests need TLS here (pyromqAclRequireTls): others could send them again")
        account = self.accounts.get(access_key)
        if account is None:
            raise UnknownCaller(f"No acl config for {access_key[:100]}")
        if self._trusts and account.white_address and matcher(account.white_address)(host_of(connection)):
            return account
        self._check_signature(self._verifier_of(account), fields, request)
        return account

    def _verifier_of(self, account: Account) -> Verifier:
        verifier = self._verifiers.get(account.access_key)
        if verifier is None:
            verifier = self._verifiers[account.access_key] = Verifier(account.secret_key)
        return verifier

    def _known_of(self, account: Account) -> Caller:
        known = self._known.get(account.access_key)
        if known is None:
            verifier = self._verifier_of(account)
            known = self._known[account.access_key] = Caller(
                account.access_key, verifier.block, set(), self._replays.last, verifier.is_signature
            )
        return known

    def _check_signature(self, verifier: Verifier, fields: Fields, request: RemotingCommand) -> None:
        if not verifier.is_signed(fields, request.code, request.body):
            raise UnknownCaller(f"Check signature failed for accessKey={fields[ACCESS_KEY]}")
        if NONCE in fields and not self._compatible:
            self._replays.check(fields, request.code)

    def _note(self, connection: Connection, access_key: str) -> None:
        """Remember that an account came in over a connection."""
        seen = connection.attributes.setdefault(_ACCOUNTS, set())
        assert isinstance(seen, set)
        if access_key not in seen and not connection.closed:
            seen.add(access_key)
            self._connections.setdefault(access_key, set()).add(connection)
            if len(seen) == 1:
                connection.on_close.append(self._closed)

    def _closed(self, connection: Connection) -> None:
        for access_key in _seen(connection):
            connections = self._connections.get(access_key)
            if connections is not None:
                connections.discard(connection)
                if not connections:
                    del self._connections[access_key]

    def _accounts_changed(self, before: AccountSet, now: AccountSet) -> None:
        self._verifiers.clear()
        self._known.clear()
        for access_key, old in before.by_key.items():
            new = now.by_key.get(access_key)
            if new is None or not new.covers(old):
                for connection in tuple(self._connections.get(access_key, ())):
                    connection.abort(f"account {access_key!r} was removed or has fewer rights now", logging.INFO)
        for connection in tuple(self._connections.get(_TRUSTED, ())):
            if not now.is_white(host_of(connection)):
                connection.abort("its address is not in the white list any more", logging.INFO)

    def caller(self, connection: Connection) -> Caller | None:
        """Return whose requests the lane may let in over a connection; None if each needs a closer look now."""
        caller = connection.attributes.get(_CALLER)
        if isinstance(caller, _Caller) and caller.accounts is self.accounts.current and not self._trusts:
            return caller.known
        return None

    def may_ask(self, connection: Connection, code: int, fields: Fields) -> bool:
        """Return True if the account that came in last over a connection may send such a request."""
        caller = connection.attributes.get(_CALLER)
        if not isinstance(caller, _Caller) or caller.access_key != fields.get(ACCESS_KEY):
            return False
        try:
            self._check_rights(caller.account, code, fields)
        except AccessRefused:
            return False
        return True

    # --- what handlers ask

    is_open = False

    def need(self, request: RemotingCommand, connection: Connection, right: Permission, topic: str) -> None:
        """Raise AccessRefused unless the account of a request has a right on a topic."""
        with self._noted(request, connection) as account:
            if account is not None:
                need_topic(account, right, topic)

    def need_group(self, request: RemotingCommand, connection: Connection, group: str) -> None:
        """Raise AccessRefused unless the account of a request may consume as a group."""
        with self._noted(request, connection) as account:
            if account is not None:
                need_group(account, group)

    def readable(
        self, request: RemotingCommand, connection: Connection, topic: str, records: Iterable[bytes]
    ) -> list[bytes]:
        """Return those of the records that are of a topic: an index may find others with the same hash."""
        if self._limited(request, connection) is None:
            return list(records)
        return [record for record in records if stored_topic(record) == topic]

    def need_admin(self, request: RemotingCommand, connection: Connection, reason: str) -> None:
        """Raise AccessRefused, for a reason, unless the account of a request may do everything."""
        with self._noted(request, connection) as account:
            if account is not None:
                raise AccessRefused(reason)

    def is_same_caller(self, one: Connection, other: Connection) -> bool:
        """Return True if one account came in over both connections, or a white list let both in."""
        return self._compatible or not _seen(one).isdisjoint(_seen(other))

    def may_publish(self, connection: Connection, topic: str) -> bool:
        """Return True if one of the accounts that came in over a connection may send to a topic."""
        if self._compatible or _TRUSTED in _seen(connection):
            return True
        accounts = [self.accounts.get(access_key) for access_key in _seen(connection)]
        return any(account is not None and (account.admin or account.on_topic(topic) & PUB) for account in accounts)

    @contextmanager
    def _noted(self, request: RemotingCommand, connection: Connection) -> Iterator[Account | None]:
        """Yield the account of a request, None if it may do everything; a refusal counts like those of `guard`."""
        try:
            yield self._limited(request, connection)
        except AccessRefused as error:
            self.refusals.note(connection, error)
            raise

    def _limited(self, request: RemotingCommand, connection: Connection) -> Account | None:
        """Return the account of a request that was let in; None if it may do everything."""
        if self._compatible and request.code != RequestCode.HEART_BEAT:
            return None
        if self._trusts and self.accounts.current.is_white(host_of(connection)):
            return None
        access_key = request.ext_fields.get(ACCESS_KEY, "")
        account = self.accounts.get(access_key)
        if account is None:  # it was removed while the request waited
            raise AccessRefused(f"No acl config for {access_key[:100]}")
        is_free = account.admin and not (self._compatible and (account.topics or account.groups))
        return None if is_free else account


def host_of(connection: Connection) -> str:
    """Return the address of a peer without its port."""
    return connection.peer.rpartition(":")[0].strip("[]")


def _seen(connection: Connection) -> set[str]:
    seen = connection.attributes.get(_ACCOUNTS)
    return seen if isinstance(seen, set) else set()
