"""Where a pipeline's Spark runs, which decides what can be looked at before it starts."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote, urlsplit


class SparkPlace(NamedTuple):
    """The master or the Connect server of a run; without both, this machine."""

    master: str | None = None
    remote: str | None = None

    @property
    def has_driver_here(self) -> bool:
        """Whether the driver, which plans reads, runs on this machine."""
        return not self.remote

    def local_path(self, path: str) -> str | None:
        """Return a path on this machine's disk, None if the path may mean something elsewhere."""
        url = urlsplit(path)
        if url.scheme == "file":
            return unquote(url.path) if self.has_driver_here else None
        is_local = self.has_driver_here and (self.master or "local").startswith("local")
        return path if is_local and not url.scheme else None
