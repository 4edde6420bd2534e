"""Checks of options: a wrong kind is refused when a client is made, with the right form in the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pyromq.client.config import FlowControl
from pyromq.errors import ClientError
from pyromq.protocol.acl import Credentials

Check = tuple[Callable[[object], bool], str]
"""Whether a value is of the right kind, and how that kind is written."""


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _at_least(low: int) -> Check:
    return lambda value: isinstance(value, int) and _is_whole(value) and value >= low, f"a whole number from {low} on"


def _seconds(*, more_than_none: bool = False) -> Check:
    def fits(value: object) -> bool:
        return isinstance(value, int | float) and _is_number(value) and (value > 0 if more_than_none else value >= 0)

    return fits, "a positive number of seconds" if more_than_none else "a number of seconds"


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check[0](value), f"{check[1]}, or None"


_WHOLE: Final[Check] = (_is_whole, "a whole number")
_NUMBER: Final[Check] = (_is_number, "a number")
_SWITCH: Final[Check] = (lambda value: isinstance(value, bool), "True or False")
_TEXT: Final[Check] = (lambda value: isinstance(value, str), "a str")
_HOOKS: Final[Check] = (
    lambda value: isinstance(value, Sequence) and not isinstance(value, str),
    "a list: hooks=[hook]",
)
_FLOW: Final[Check] = (lambda value: isinstance(value, FlowControl), "FlowControl(messages=..., size=...)")
_ACCOUNT: Final[Check] = (lambda value: isinstance(value, Credentials), "Credentials(access_key, secret_key)")
_FUNCTION: Final[Check] = (callable, "a function such as allocate_averagely")
_OFFSETS: Final[Check] = (
    lambda value: all(hasattr(value, name) for name in ("load", "commit")),
    "an object with load and commit, such as LocalOffsets(path)",
)

CHECKS: Final[dict[str, Check]] = {
    "send_timeout": _seconds(more_than_none=True),
    "retries": _at_least(0),
    "retry_other_broker_when_not_stored": _SWITCH,
    "latency_fault_tolerance": _SWITCH,
    "compress_over": _at_least(0),
    "topic_queues": _at_least(1),
    "max_message_size": _at_least(1),
    "max_in_flight": _at_least(1),
    "linger": _or_none(_seconds()),
    "orderly": _SWITCH,
    "broadcasting": _SWITCH,
    "concurrency": _WHOLE,
    "batch_size": _WHOLE,
    "pull_batch": _at_least(1),
    "pull_interval": _NUMBER,
    "rate": _or_none(_NUMBER),
    "max_reconsume": _or_none(_WHOLE),
    "auto_commit": _SWITCH,
    "auto_commit_interval": _seconds(more_than_none=True),
    "poll_timeout": _seconds(),
    "flow_control": _or_none(_FLOW),
    "allocate": _FUNCTION,
    "hooks": _HOOKS,
    "offset_store": _or_none(_OFFSETS),
    "namespace": _or_none(_TEXT),
    "instance_name": _or_none(_TEXT),
    "credentials": _or_none(_ACCOUNT),
}


def check_options(options: Mapping[str, object]) -> None:
    """Raise ClientError if one of the options is of the wrong kind; names that are no options are passed over."""
    for name, (fits, form) in CHECKS.items():
        if name in options and not fits(options[name]):
            raise ClientError(f"{name}= takes {form}, not {options[name]!r:.80}")
