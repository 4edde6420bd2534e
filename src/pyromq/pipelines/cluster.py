"""The cluster that a pipeline uses: its name servers, and the account from the environment, if any."""

from __future__ import annotations

from collections.abc import Mapping

from pyromq.client.environment import environment_credentials
from pyromq.protocol.acl import Credentials
from pyromq.remoting.tls.client_tls import environment_tls
from pyromq.spark.options.option_values import tls, tls_options
from pyromq.spark.read.brokers.broker_queues import BrokerQueues, connect


def cluster(namesrv: str) -> dict[str, str]:
    """Return the options with which format "pyromq" reaches a cluster.

    Call this on the user's machine: functions for batches may run on another one, with another environment.
    """
    account = environment_credentials()
    options = {"namesrv": namesrv, **tls_options(environment_tls())}
    if account is None:
        return options
    return {**options, "accessKey": account.access_key, "secretKey": account.secret_key}


def brokers_of(options: Mapping[str, str]) -> BrokerQueues:
    """Return the queues of a cluster, given such options."""
    account = Credentials(options["accessKey"], options["secretKey"]) if "accessKey" in options else None
    return connect(options["namesrv"], account, tls(options))
