"""Headers about accounts and filter servers."""

from __future__ import annotations

from msgspec import field

from pyromq.protocol.headers import I32, I64, Header


class UpdateAndCreateAclConfigRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """UPDATE_AND_CREATE_ACL_CONFIG (50); permissions are `name=PERM`, separated by commas."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAclConfigRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """DELETE_ACL_CONFIG (51)."""

    access_key: str


class GetBrokerClusterAclInfoResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """The answer to GET_BROKER_CLUSTER_ACL_INFO (52); versions are DataVersions as JSON."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


class UpdateGlobalWhiteAddrsConfigRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53); addresses are separated by commas."""

    global_white_addrs: str
    acl_file_full_path: str | None = None


class RegisterFilterServerRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """REGISTER_FILTER_SERVER (301), removed in 4.9.6."""

    filter_server_addr: str


class RegisterFilterServerResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """The broker that registered the filter server."""

    broker_name: str
    broker_id: I64


class RegisterMessageFilterClassRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """REGISTER_MESSAGE_FILTER_CLASS (302), client to filter server; the class source is the body."""

    consumer_group: str
    topic: str
    class_name: str
    class_crc: I32 = field(default=0, name="classCRC")
