"""Sends that a broker stores without a word: what a client sees if the answer is lost on its way."""

from __future__ import annotations

from typing import Final

from pyromq.protocol.codes import ONEWAY_FLAG, RequestCode
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import Handler, HandlerResult

_SENDS: Final = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


def lose_answers(handlers: dict[int, Handler], count: int) -> None:
    """Let the handlers of sends answer none of the next `count` requests; used on the broker's loop.

    A request that wants no answer is handled like any other, so each of them is made one.
    """
    usual = {code: handlers[code] for code in _SENDS}
    left = count

    def serve(request: RemotingCommand, connection: Connection) -> HandlerResult:
        nonlocal left
        if left and not request.is_oneway:
            left -= 1
            request.flag |= ONEWAY_FLAG
        return usual[RequestCode(request.code)](request, connection)

    handlers.update(dict.fromkeys(_SENDS, serve))
