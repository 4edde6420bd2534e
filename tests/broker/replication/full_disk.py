"""A disk on which nothing can be created any more."""

from __future__ import annotations

import errno

from pyromq.store.files import OsFiles


class FullDisk(OsFiles):
    """Nothing can be created any more."""

    def open(self, path: str, *, create: bool = False) -> int:
        if create:
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().open(path, create=create)
