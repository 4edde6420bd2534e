"""What can be wrong with a request to the console, and the status that says so."""

from __future__ import annotations

from typing import Final

from pyromq.errors import (
    AccessDenied,
    BrokerError,
    ClientError,
    ConfigError,
    GroupNotFound,
    NoRoute,
    ProtocolError,
    PyroMQError,
    TopicNotFound,
)


class WebError(PyroMQError):
    """A request that is answered with an error."""

    status = 400


class FormError(WebError):
    """A field of a form is wrong."""

    status = 422


class NotFound(WebError):
    """There is no such page, topic, group or message."""

    status = 404


class Refused(WebError):
    """The user may not do this."""

    status = 403


_STATUSES: Final = (
    (AccessDenied, 403),
    ((NoRoute, TopicNotFound, GroupNotFound), 404),
    ((ClientError, ConfigError, BrokerError, ProtocolError), 422),
)


def status_of(error: PyroMQError) -> int:
    """Return the HTTP status for an error."""
    if isinstance(error, WebError):
        return error.status
    return next((status for kinds, status in _STATUSES if isinstance(error, kinds)), 503)


def words_of(error: PyroMQError) -> str:
    """Return what the page says."""
    text = str(error) or type(error).__name__
    return text[:1].upper() + text[1:]
