"""What administrators ask about accounts (50 to 54): to list, add, change and remove them. No answer has a secret."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyromq.access.account import Account, show_permission
from pyromq.access.account_changes import AccountChanges, why
from pyromq.access.account_file import FileVersion, show_rights
from pyromq.access.accounts import Accounts
from pyromq.broker.parts import Parts
from pyromq.errors import BrokerError, ConfigError
from pyromq.protocol.bodies import DataVersion, encode
from pyromq.protocol.bodies.admin import AclInfo, PlainAccessConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.accounts import (
    DeleteAclConfigRequestHeader,
    GetBrokerClusterAclInfoResponseHeader,
    UpdateAndCreateAclConfigRequestHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)
from pyromq.remoting.connection import Connection

_FAILURES = (ValueError, LookupError, ConfigError, OSError)


class AccountHandlers:
    """Lists and changes the accounts of a broker with access control."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._accounts = parts.accounts
        self._changes = None if parts.accounts is None else AccountChanges(parts.accounts, parts.clock.now_ms)

    async def update(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Add an account, or change the given fields of one; answer when that is saved and in force."""
        header = request.header(UpdateAndCreateAclConfigRequestHeader)
        with self._changing(ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED) as changes:
            await changes.update(header)
        return response(request)

    async def remove(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Remove an account; its connections are closed."""
        header = request.header(DeleteAclConfigRequestHeader)
        with self._changing(ResponseCode.DELETE_ACL_CONFIG_FAILED) as changes:
            await changes.remove(header.access_key)
        return response(request)

    async def set_white_addresses(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Replace the white list of the default file."""
        header = request.header(UpdateGlobalWhiteAddrsConfigRequestHeader)
        with self._changing(ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED) as changes:
            await changes.set_white_addresses([part for part in header.global_white_addrs.split(",") if part.strip()])
        return response(request)

    def state(self, request: RemotingCommand) -> PlainAccessConfig | list[str] | None:
        """Return the account that a request names, or the white list, for the audit log; never a secret."""
        if self._accounts is None:
            return None
        if request.code == RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG:
            content = self._accounts.current.files.get(self._accounts.default_file)
            return None if content is None else list(content.white_addresses)
        account = self._accounts.get(request.ext_fields.get("accessKey", ""))
        return None if account is None else _shown(account)

    def version(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return how often requests have changed the default file."""
        accounts = self._existing()
        files = accounts.current.files
        versions = {path.name: _version(content.version) for path, content in files.items()}
        default = versions.get(accounts.default_file.name, DataVersion())
        header = GetBrokerClusterAclInfoResponseHeader(
            version=encode(default).decode(),
            all_acl_file_version=encode(versions).decode(),  # mqadmin since 4.9.4 reads this one
            broker_name=self._parts.name,
            broker_addr=self._parts.address,
            cluster_name=self._parts.config.cluster,
        )
        return response(request, header=header)

    def list_all(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return all accounts without their secrets, and the white list, as the files have them now."""
        accounts = self._existing()
        try:
            accounts.reload()  # another broker may have changed a file that they share
        except ConfigError as error:
            raise BrokerError(why(error)) from None
        white = [pattern for file in accounts.current.files.values() for pattern in file.white_addresses]
        listed = [_shown(account) for account in accounts.listed]
        return response(request, body=encode(AclInfo(global_white_addrs=white, plain_access_configs=listed)))

    def _existing(self) -> Accounts:
        if self._accounts is None:
            raise BrokerError("this broker has no access control: aclEnable is false")
        return self._accounts

    @contextmanager
    def _changing(self, code: ResponseCode) -> Iterator[AccountChanges]:
        """Give what changes accounts; what fails is answered with `code`."""
        if self._changes is None:
            raise BrokerError("this broker has no access control: aclEnable is false", code)
        try:
            yield self._changes
        except _FAILURES as error:
            raise BrokerError(why(error), code) from None


def _version(version: FileVersion) -> DataVersion:
    return DataVersion(version.timestamp_ms, version.counter)


def _shown(account: Account) -> PlainAccessConfig:
    return PlainAccessConfig(
        access_key=account.access_key,
        white_remote_address=account.white_address or None,
        admin=account.admin,
        default_topic_perm=show_permission(account.default_topic),
        default_group_perm=show_permission(account.default_group),
        topic_perms=show_rights(account.topics),
        group_perms=show_rights(account.groups),
    )
