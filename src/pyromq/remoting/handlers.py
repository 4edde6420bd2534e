"""What serves requests: the types that servers and those who answer for them share."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeAlias

from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection

Answer: TypeAlias = bytes | RemotingCommand | None
"""An encoded frame, a command to encode, or None: the answer comes later by `Connection.send`, or never."""

HandlerResult: TypeAlias = Answer | Coroutine[Any, Any, Answer] | Generator[None, None, Answer]
"""An answer, or what yields one later: a coroutine runs as a task, a generator in slices (slices.py)."""

Handler: TypeAlias = Callable[[RemotingCommand, Connection], HandlerResult]
"""Answers one request or raises. One-way requests get no answer."""
