"""The cluster that a pipeline works on: its name servers, and the account that the environment names, if any."""

from __future__ import annotations

from collections.abc import Mapping

from pyromq.client.environment import environment_credentials
from pyromq.protocol.acl import Credentials
from pyromq.spark.read.brokers.broker_queues import BrokerQueues, connect


def cluster(namesrv: str) -> dict[str, str]:
    """Return the options by which format "pyromq" reaches a cluster.

    Called where the user is: what is done for each batch may run on another machine, which has another environment.
    """
    account = environment_credentials()
    if account is None:
        return {"namesrv": namesrv}
    return {"namesrv": namesrv, "accessKey": account.access_key, "secretKey": account.secret_key}


def brokers_of(options: Mapping[str, str]) -> BrokerQueues:
    """Return the brokers of a cluster, by such options."""
    account = Credentials(options["accessKey"], options["secretKey"]) if "accessKey" in options else None
    return connect(options["namesrv"], account)
