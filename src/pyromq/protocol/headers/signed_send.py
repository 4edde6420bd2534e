"""SignedSendHeader: a send with its account and signature, read in one step for both the check and the handler.

A server with access control needs every ext field as text, in the order of the names, and the handler needs numbers.
Here the numbers are read, and the text is written from them: half the time of reading texts and converting them. Where
a client writes its fields in another way (`"k":"0"`) that text is not what it signed. Then the fields are read again as
they came (`RemotingCommand.read_plainly`). What is accepted here was signed in any case, value by value.
"""

from __future__ import annotations

from msgspec import field

from pyromq.protocol.headers import Header
from pyromq.protocol.headers.send import SendMessageRequestHeaderV2


class SignedSendHeader(SendMessageRequestHeaderV2, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """The fields of SEND_MESSAGE_V2 and those of access control; a header with others cannot be read as this."""

    access_key: str = field(name="AccessKey")
    signature: str = field(name="Signature")
    security_token: str | None = field(default=None, name="SecurityToken")
    signed_code: str | None = field(default=None, name="pyromqCode")
    nonce: str | None = field(default=None, name="pyromqNonce")
    signed_at: str | None = field(default=None, name="pyromqTime")

    to_json = Header.to_json  # not by the template of plain sends

    def signed_text(self) -> str:
        """Return what the signature covers before the body, if the client writes numbers and booleans as Java does."""
        times, most = self.reconsume_times, self.max_reconsume_times
        return (
            f"{self.access_key}{self.security_token or ''}{self.producer_group}{self.topic}{self.default_topic}"
            f"{self.default_topic_queue_nums}{self.queue_id}{self.sys_flag}{self.born_timestamp}{self.flag}"
            f"{self.properties or ''}{'' if times is None else times}{'true' if self.unit_mode else 'false'}"
            f"{'' if most is None else most}{'true' if self.batch else 'false'}{self.broker_name or ''}"
            f"{self.signed_code or ''}{self.nonce or ''}{self.signed_at or ''}"
        )
