"""Access control and TLS in `pyromq up`: one directory of accounts, and servers that know each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyromq.access.one_process import InnerAccount
from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.namesrv.config import NameServerConfig


def guarded_together(configs: Sequence[BrokerConfig], data: Path) -> list[BrokerConfig]:
    """Return the settings of brokers of one process: their requests to each other need no account of a file."""
    inner = InnerAccount()
    return [config.with_inner_account(inner, data) for config in configs]


def guarded_name_server(config: BrokerConfig) -> NameServerConfig:
    """Return the settings of the name server beside a broker."""
    return NameServerConfig(
        home=config.home,
        acl_enabled=config.acl_enabled,
        acl_trusts_white_list=config.acl_trusts_white_list,
        acl_compatible=config.acl_compatible,
        acl_requires_tls=config.acl_requires_tls,
        inner_account=config.inner_account,
        tls_mode=config.tls_mode,
        tls_cert=config.tls_cert,
        tls_key=config.tls_key,
        tls_key_password=config.tls_key_password,
        tls_trust=config.tls_trust,
        tls_client_auth=config.tls_client_auth,
        tls_test_mode=config.tls_test_mode,
    )
