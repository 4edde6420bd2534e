"""Credentials from the environment, for commands and pipelines: every user of a machine can read their options."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyromq.errors import ConfigError
from pyromq.protocol.acl import Credentials

ACCESS_KEY_VARIABLE = "PYROMQ_ACCESS_KEY"
SECRET_KEY_VARIABLE = "PYROMQ_SECRET_KEY"  # noqa: S105 (a variable's name)


def environment_credentials(environment: Mapping[str, str] = os.environ) -> Credentials | None:
    """Return the account in the two variables, None if neither is set; raises ConfigError if only one is."""
    access_key, secret_key = (environment.get(name) for name in (ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE))
    if access_key and secret_key:
        return Credentials(access_key, secret_key)
    if access_key or secret_key:
        missing = SECRET_KEY_VARIABLE if access_key else ACCESS_KEY_VARIABLE
        raise ConfigError(f"{missing} is not set: an account is {ACCESS_KEY_VARIABLE} and {SECRET_KEY_VARIABLE}")
    return None
