"""The cluster that a pipeline uses: its name servers, and the account from the environment, if any."""

from __future__ import annotations

from collections.abc import Mapping

from pyromq.client.environment import environment_credentials
from pyromq.protocol.acl import Credentials
from pyromq.spark.read.brokers.broker_queues import BrokerQueues, connect


def cluster(namesrv: str) -> dict[str, str]:
    """Return the options with which format "pyromq" reaches a cluster.

    Call this on the user's machine: functions for batches may run on another one, with another environment.
    """
    account = environment_credentials()
    if account is None:
        return {"namesrv": namesrv}
    return {"namesrv": namesrv, "accessKey": account.access_key, "secretKey": account.secret_key}


def brokers_of(options: Mapping[str, str]) -> BrokerQueues:
    """Return the queues of a cluster, given such options."""
    account = Credentials(options["accessKey"], options["secretKey"]) if "accessKey" in options else None
    return connect(options["namesrv"], account)
