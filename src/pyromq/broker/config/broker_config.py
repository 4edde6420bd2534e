"""Settings of a broker, and how they are read from RocketMQ's broker.conf keys."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pyromq.access.access_control import AccessRules
from pyromq.access.one_process import InnerAccount
from pyromq.broker.config.etcd_address import EtcdAddress, parse_endpoints
from pyromq.broker.config.keys import BROKER_KEYS, BROKER_TABLE, FIXED_KEYS, STORE_KEYS
from pyromq.broker.config.limits import BrokerLimits
from pyromq.errors import ConfigError, LocalProtocolError
from pyromq.protocol.acl import Credentials
from pyromq.protocol.codes import PERM_WRITE
from pyromq.protocol.names import DEFAULT_REGION, TRACE_TOPIC, check_broker
from pyromq.remoting.audit.audit_trail import FILE_NAME
from pyromq.settings.key_table import Key, raise_errors, show_settings
from pyromq.settings.netty_keys import with_tls_file
from pyromq.store.config import StoreConfig

DEFAULT_ROOT = "pyromq-data/store"
FAST_PORT_BELOW = 2
HA_PORT_ABOVE = 1
_DEMOTED_ID = 1000


class BrokerConfig(BrokerLimits, frozen=True, kw_only=True):
    """How a broker presents itself, what it allows, and how often it does what it does by itself. Times in seconds."""

    store: StoreConfig
    """Where and how messages are kept."""
    home: Path | None = None
    """The directory with `conf/plain_acl.yml` (`rocketmqHome`); the one above the store's unless given."""
    acl_enabled: bool = False
    """Whether every request needs an account and the right (`aclEnable`)."""
    acl_trusts_white_list: bool = False
    """Whether an address in a white list needs no signature (`pyromqAclTrustWhiteList`)."""
    acl_requires_tls: bool = False
    """Whether signed requests are refused on plain connections (`pyromqAclRequireTls`)."""
    acl_compatible: bool = False
    """Whether access control decides exactly as RocketMQ 4.9 (`pyromqAclCompatible`)."""
    audit_log: Path | None = None
    """The file of the audit log (`pyromqAuditLog`); `audit/audit.jsonl` in the store's directory, unless given."""
    credentials: Credentials | None = None
    """The account of this broker's own requests, at name servers and at other brokers; no key sets it."""
    inner_account: Credentials | None = None
    """An administrator that exists only within this process, for servers that it has besides this broker."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = 10911
    """The port to listen on (`listenPort`); the fast port is two below it. 0: the system chooses both."""
    cluster: str = "DefaultCluster"
    """The cluster this broker belongs to (`brokerClusterName`)."""
    name: str = "broker-a"
    """The broker's name (`brokerName`)."""
    advertised_host: str | None = None
    """What clients connect to (`brokerIP1`): an address or a name; the host listened on unless given."""
    ha_host: str | None = None
    """What slaves connect to (`brokerIP2`)."""
    role: str = "ASYNC_MASTER"
    """ASYNC_MASTER, SYNC_MASTER (a send waits for a slave) or SLAVE (`brokerRole`)."""
    broker_id: int = 0
    """0 for a master; what tells the slaves of one name apart (`brokerId`)."""
    ha_listen_port: int | None = None
    """The port for slaves (`haListenPort`); the one above the port, unless given."""
    ha_master_address: str = ""
    """Where a slave finds its master's port for slaves (`haMasterAddress`); the name server says, unless given."""
    ha_heartbeat: float = 5.0
    """Time between two signs of life of master and slave (`haSendHeartbeatInterval`)."""
    ha_patience: float = 20.0
    """How long either may be silent (`haHousekeepingInterval`)."""
    ha_batch_size: int = 32 * 1024
    """Bytes in one transfer to Apache's slaves (`haTransferBatchSize`)."""
    ha_fall_behind: int = 256 << 20
    """How far behind a slave still counts for SYNC_MASTER (`haSlaveFallbehindMax`)."""
    ha_secret: str = ""
    """What slaves have to know (`haSecret`); Apache's do not."""
    ha_allowed: tuple[str, ...] = ()
    """Addresses of slaves that need no secret (`pyromqHaAllow`): Apache's slaves know none."""
    ha_keep_bytes: int = 10 << 30
    """How much of the log is kept beyond its time for a slave that copies it (`pyromqHaKeepBytes`)."""
    ha_catch_up_rate: int = 100 << 20
    """Bytes that a slave far behind gets in a second, and twice what is written (`pyromqHaCatchUpBytes`); 0: all."""
    slave_patience: float | None = None
    """How long a master that may have lost messages waits at its start for a slave to ask (`pyromqWaitForSlave`)."""
    slave_timeout: float = 3.0
    """How long a send waits for a slave, before it hears FLUSH_SLAVE_TIMEOUT (`slaveTimeout`)."""
    failover: str = ""
    """Who is master is decided through this etcd: `etcd://host:port,…` (`failover`); by hand, unless given."""
    failover_may_lose: bool = False
    """Whether failover is allowed although sends do not wait for slaves (`failoverMayLose`)."""
    failover_lease: float = 3.0
    """After which time without a sign of life another broker is elected (`failoverLease`)."""
    failover_user: str = ""
    """The account at etcd (`failoverUser`)."""
    failover_password: str = ""
    """Its password (`failoverPassword`)."""
    failover_ca_file: str = ""
    """The certificates by which etcd is known (`failoverCaFile`); with it, or a certificate, TLS is spoken."""
    failover_cert_file: str = ""
    """The certificate shown to etcd (`failoverCertFile`)."""
    failover_key_file: str = ""
    """Its key (`failoverKeyFile`)."""
    namesrv: tuple[str, ...] = ()
    """The name servers to register at (`namesrvAddr`)."""
    permission: int = 6
    """4 read, 2 write (`brokerPermission`); what it lacks, no topic of this broker has."""
    writes_paused: bool = False
    """Whether sends are refused and no topic is registered as writable (`pyromqWritesPaused`)."""
    idle_timeout: float = 120
    """How long a connection may be silent (`serverChannelMaxIdleTimeSeconds`)."""

    registration_period: float = 30.0
    """Time between two registrations (`registerNameServerPeriod`), kept within 10 to 60 s."""
    registration_timeout: float = 6.0
    """How long to wait for a name server's answer (`registerBrokerTimeoutMills`)."""
    compressed_registration: bool = False
    """Whether the table of topics is compressed on its way there (`compressedRegister`)."""
    offset_save_period: float = 5.0
    """Time between two saves of committed offsets (`flushConsumerOffsetInterval`)."""

    sync_flush_timeout: float = 5.0
    """How long a send waits for a flush, under SYNC_FLUSH, before it hears FLUSH_DISK_TIMEOUT (`syncFlushTimeout`)."""
    cleaning_period: float = 10.0
    """Time between two looks for files that have expired, and at the disk (`cleanResourceInterval`)."""

    auto_create_topics: bool = True
    """Whether a send may create its topic (`autoCreateTopicEnable`)."""
    default_topic_queues: int = 8
    """Queues of the template for created topics (`defaultTopicQueueNums`)."""
    auto_create_groups: bool = True
    """Whether a consumer may create its group (`autoCreateSubscriptionGroup`)."""
    cluster_topic_enabled: bool = True
    """Whether the topic named after the cluster may be read and written (`clusterTopicEnable`)."""
    broker_topic_enabled: bool = True
    """Whether the topic named after the broker may be read and written (`brokerTopicEnable`)."""
    trace_topic_enabled: bool = False
    """Whether this broker holds the topic of message traces (`traceTopicEnable`)."""
    trace_topic: str = TRACE_TOPIC
    """The topic of message traces (`msgTraceTopicName`)."""
    region: str = DEFAULT_REGION
    """Told to producers in every answer to a send (`regionId`)."""
    trace_on: bool = True
    """Whether clients may trace their sends (`traceOn`)."""

    long_polling: bool = True
    """Whether a pull may wait as long as it says (`longPollingEnable`)."""
    short_polling_time: float = 1.0
    """How long it waits otherwise (`shortPollingTimeMills`)."""
    property_filter: bool = False
    """Whether consumers may filter by SQL92 expressions (`enablePropertyFilter`); on in `pyromq up`."""
    filter_retries: bool = False
    """Whether messages that come again are filtered once more (`filterSupportRetry`)."""
    filter_functions: tuple[tuple[str, str], ...] = ()
    """Filters that consumers may subscribe to by name, each a `module:function` (`pyromqFilterFunctions`)."""
    filter_keep_time: float = 86_400.0
    """How long a filter is kept that no consumer asks for (`filterDataCleanTimeSpan`)."""
    slave_read: bool = False
    """Whether a pull that lags far behind is told to ask a slave next (`slaveReadEnable`)."""
    notify_consumer_changes: bool = True
    """Whether a group's members are told when one comes or goes (`notifyConsumerIdsChangedEnable`)."""
    store_replies: bool = True
    """Whether replies to request messages are stored, besides being handed to who waits (`storeReplyMessageEnable`)."""
    transaction_timeout: float = 6.0
    """How long after its birth a transaction is left alone, unless it says so itself (`transactionTimeOut`)."""
    transaction_check_max: int = 15
    """How often a producer is asked about a transaction before it is given up (`transactionCheckMax`)."""
    transaction_check_interval: float = 60.0
    """Time between two rounds of questions (`transactionCheckInterval`)."""
    reject_transactions: bool = False
    """Whether transactional messages are refused (`rejectTransactionMessage`)."""
    fast_failure: bool = True
    """Whether sends are refused where requests wait too long (`brokerFastFailureEnable`)."""
    send_wait_limit: float = 0.2
    """How long that is (`waitTimeMillsInSendQueue`)."""
    slow_write_limit: float = 1.0
    """How long a write of the log may take before sends are refused (`osPageCacheBusyTimeOutMills`)."""
    accept_sends_from_ms: int = 0
    """The time from which on sends are taken, ms since the epoch (`startAcceptSendRequestTimeStamp`)."""

    without_effect: tuple[str, ...] = ()
    """Keys that were given, are RocketMQ's and change nothing here; and unknown ones, if that was allowed."""

    def __post_init__(self) -> None:
        for key, name in (("brokerClusterName", self.cluster), ("brokerName", self.name)):
            try:
                check_broker(name)  # each is also the name of a topic
            except LocalProtocolError as error:
                raise ConfigError(f"{key}: {error}") from None
        if self.is_slave and self.broker_id == 0:
            raise ConfigError("brokerId: a slave needs an id above 0 (brokerRole=SLAVE)")
        self._check_failover()
        if 0 < self.port <= FAST_PORT_BELOW:
            raise ConfigError(f"listenPort: {self.port} leaves no room for the fast port, two below it")
        if self.ha_port > 65535:
            raise ConfigError(
                f"listenPort: {self.port} leaves no room for the port for slaves, one above: set haListenPort"
            )

    def _check_failover(self) -> None:
        if not self.failover:
            return
        parse_endpoints(self.failover)
        if self.broker_id == 0:
            raise ConfigError("brokerId: failover needs an id above 0 on every broker: its id while it is a slave")
        if self.role == "SLAVE":
            raise ConfigError(
                "brokerRole: under failover it says what a broker is once it is elected: SYNC_MASTER on every broker"
            )
        if self.role != "SYNC_MASTER" and not self.failover_may_lose:
            raise ConfigError(
                f"brokerRole: {self.role} acknowledges what no slave has, so a failover loses messages:"
                " set SYNC_MASTER, or failoverMayLose=true"
            )

    @property
    def open_for(self) -> int:
        """What clients may do here: 4 read, 2 write."""
        return self.permission & ~PERM_WRITE if self.writes_paused else self.permission

    @property
    def is_slave(self) -> bool:
        """Whether it starts as a slave; under failover every broker does, until it is elected."""
        return self.role == "SLAVE" or bool(self.failover)

    @property
    def access_rules(self) -> AccessRules | None:
        """How requests are let in; None if everybody may do everything."""
        if not self.acl_enabled:
            return None
        return AccessRules(
            home=self.home or self.store.root.parent,
            trusts_white_list=self.acl_trusts_white_list,
            is_compatible=self.acl_compatible,
            requires_tls=self.needs_tls(self.acl_requires_tls),
            own=self.inner_account,
        )

    def with_inner_account(self, inner: InnerAccount, home: Path) -> BrokerConfig:
        """Return these settings for a broker that is not alone in its process; they trust each other."""
        config = replace(self, inner_tls=self.tls_rules.inside)
        if not self.acl_enabled:
            return config
        return replace(
            config,
            home=self.home or home,
            inner_account=inner.credentials,
            ha_secret=self.ha_secret or inner.ha_secret,
        )

    @property
    def audit_path(self) -> Path:
        """The file of the audit log."""
        return self.audit_log or self.store.root / "audit" / FILE_NAME

    @property
    def own_account(self) -> Credentials | None:
        """The account with which this broker signs its own requests."""
        return self.inner_account or self.credentials

    @property
    def etcd(self) -> EtcdAddress:
        """Where etcd is, and what it wants to see."""
        return EtcdAddress(
            endpoints=parse_endpoints(self.failover),
            user=self.failover_user,
            password=self.failover_password,
            ca_file=self.failover_ca_file,
            cert_file=self.failover_cert_file,
            key_file=self.failover_key_file,
        )

    @property
    def wait_for_slave(self) -> float:
        """How long a master that may have lost messages waits for a slave: a minute where a slave confirms sends."""
        if self.slave_patience is not None:
            return self.slave_patience
        return 60.0 if self.role == "SYNC_MASTER" else 0.0

    @property
    def slave_id(self) -> int:
        """The id while it is a slave; a master that was given none, and is demoted, must not be registered as 0."""
        return self.broker_id or _DEMOTED_ID

    @property
    def ha_port(self) -> int:
        """Return the port for slaves; 0 if the system chooses it."""
        if self.ha_listen_port is not None:
            return self.ha_listen_port
        return self.port + HA_PORT_ABOVE if self.port else 0

    @property
    def fast_port(self) -> int:
        """Return the port that serves all but pulls."""
        return self.port - FAST_PORT_BELOW if self.port else 0

    @property
    def namesrv_addr(self) -> str:
        """Return the name servers as one text."""
        return ";".join(self.namesrv)

    @property
    def public_host(self) -> str:
        """Return what clients connect to, as far as the settings say; empty if this machine has to be asked."""
        return self.advertised_host or ("" if _is_unspecified(self.host) else self.host)


def broker_config(
    values: Mapping[str, str], *, lenient: bool = False, always_strict: Collection[str] = (), host: str = "127.0.0.1"
) -> BrokerConfig:
    """Read settings by RocketMQ's keys; raise ConfigError that names every key or value that is wrong.

    `lenient` accepts unknown keys, but not those of `always_strict`: what a user typed on the command line.
    """
    read, findings = BROKER_TABLE.read(with_tls_file(values), lenient=lenient, always_strict=always_strict)
    ignored = raise_errors(findings)
    store = StoreConfig(**{"root": Path(DEFAULT_ROOT), **_fields(STORE_KEYS, read)})
    return BrokerConfig(store=store, host=host, without_effect=ignored, **_fields(BROKER_KEYS, read))


def settings_of(config: BrokerConfig) -> dict[str, str]:
    """Return the settings that have an effect, by RocketMQ's keys."""
    shown = {key: fixed.value for key, fixed in FIXED_KEYS.items() if fixed.value}
    shown |= show_settings(BROKER_KEYS, config) | show_settings(STORE_KEYS, config.store)
    return dict(sorted(shown.items()))


def _fields(keys: Mapping[str, Key], values: Mapping[str, Any]) -> dict[str, Any]:
    return {keys[key].field: value for key, value in values.items() if key in keys}


def _is_unspecified(host: str) -> bool:
    try:
        return not host or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
