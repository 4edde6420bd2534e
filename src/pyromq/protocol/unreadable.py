"""What reading a text of a stranger by msgspec may raise, in one place for all readers."""

from __future__ import annotations

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""Its own errors; bad UTF-8 and numbers (ValueError); and deep nesting."""
