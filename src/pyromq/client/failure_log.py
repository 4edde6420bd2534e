"""Failures that repeat until somebody mends them: said once, not every second of a night-long outage."""

from __future__ import annotations

import logging


class FailureLog:
    """Logs a failure as a warning when it is new or different, and once more when it is over."""

    def __init__(self, logger: logging.Logger, work: str) -> None:
        self._logger = logger
        self._work = work
        self._last = ""

    def failed(self, error: object) -> None:
        """Note a failure."""
        text = str(error)
        level = logging.DEBUG if text == self._last else logging.WARNING
        self._logger.log(level, "%s failed and is tried again: %s", self._work, text)
        self._last = text

    def worked(self) -> None:
        """Note that it works, perhaps again."""
        if self._last:
            self._logger.info("%s works again", self._work)
            self._last = ""
