"""Options of reads from the files of a store, and which other options may go with them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from pyromq.errors import ConfigError
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.offsets import Offsets
from pyromq.spark.options import option_values
from pyromq.spark.options.option_values import Parsers

STORE = "store"
"""Stands for the broker name in offsets of a store whose broker is not named."""

_OF_BROKERS = (*option_values.ACCOUNT, *option_values.TLS, "readFrom", "pullBatchSize", "pullTimeout", "retryTimeout")


def check_way(texts: Mapping[str, str]) -> None:
    """Raise ConfigError unless the options choose one way to read, brokers or files, without options of the other."""
    if ("namesrv" in texts) == ("store" in texts):
        raise ConfigError(
            f"{option_values.without_name_server(texts)}; or set store, a directory"
            if "store" not in texts
            else "set one of the options namesrv (read through brokers) and store (read its files)"
        )
    if "store" in texts:
        for name in (name for name in _OF_BROKERS if name in texts):
            raise ConfigError(f"option {name} is for reads through brokers; leave it out with option store")
    else:
        for name in (name for name in STORE_PARSERS if name in texts):
            raise ConfigError(f"option {name} belongs to option store; leave it out")


def in_store(offsets: Offsets, broker_name: str | None) -> Offsets:
    """Return offsets with the store's broker name; if `broker_name` is set, they must already have it."""
    brokers = {queue.broker_name for queue in offsets}
    if broker_name is not None:
        return offsets
    if len(brokers) > 1:
        raise ConfigError(f"offsets name the brokers {', '.join(sorted(brokers))}, but a store is one broker's")
    return {MessageQueue(queue.topic, STORE, queue.queue_id): offset for queue, offset in offsets.items()}


def _directory(text: str) -> str:
    """Return an absolute path, because tasks run in other directories."""
    if not text:
        raise ValueError("expected the directory that holds commitlog/, or whose store/ does")
    url = urlsplit(text)
    if url.scheme and url.scheme != "file":
        raise ValueError(f"expected a directory that every executor sees, not {text!r}")
    return os.path.abspath(unquote(url.path) if url.scheme else text)


def _broker_name(text: str) -> str:
    if not text:
        raise ValueError("expected the name of the broker that wrote the store")
    return text


STORE_PARSERS: Parsers = {
    "store": ("store", _directory),
    "brokerName": ("broker_name", _broker_name),
    "checkCrc": ("check_crc", option_values.truth),
}
