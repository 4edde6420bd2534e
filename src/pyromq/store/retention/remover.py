"""Work that would stop the loop, done in a thread of its own: freeing a gigabyte takes a file system some time."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from pyromq.store.files import OsFiles

logger = logging.getLogger(__name__)


class Remover:
    """Removes files and directories one after the other, in order; the thread lives while there is work.

    One that cannot be removed stays first: those behind it wait until `start` is called again, so that of a run of
    files never a later one goes before an earlier one.
    """

    def __init__(self, files: OsFiles) -> None:
        self._files = files
        self._guard = threading.Lock()
        self._work: deque[Callable[[], object]] = deque()
        self._thread: threading.Thread | None = None

    def add_file(self, path: str, held: object = None) -> None:
        """Have a file removed; `held`, such as a map of it, is let go of in the thread too."""
        holding = [held]
        self.add(lambda: self._remove_file(path, holding))

    def add_directory(self, path: str) -> None:
        """Have a directory removed with the files in it."""
        self.add(lambda: self._remove_directory(path))

    def add(self, work: Callable[[], object]) -> None:
        """Have other work of this kind done; an OSError of it is logged, and it is tried again."""
        with self._guard:
            self._work.append(work)

    def start(self) -> None:
        """Do what was added, and try again what failed before."""
        with self._guard:
            if self._work and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="pyromq-remove", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait until all is done that can be done."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._guard:
                if not self._work:
                    self._thread = None
                    return
                work = self._work[0]
            try:
                work()
            except OSError as error:
                logger.error("cannot remove what has expired, it is tried again: %s", error)
                with self._guard:
                    self._thread = None
                return
            except Exception:  # a mistake of ours must not keep all else from being removed
                logger.exception("something could not be removed")
            with self._guard:
                self._work.popleft()

    def _remove_file(self, path: str, holding: list[object]) -> None:
        holding.clear()
        try:
            self._files.unlink(path)
        except FileNotFoundError:
            return
        self._files.sync_directory(path.rpartition("/")[0])
        logger.info("removed file=%s", path)

    def _remove_directory(self, path: str) -> None:
        try:
            for name in self._files.listdir(path):
                self._files.unlink(f"{path}/{name}")
            self._files.rmdir(path)
        except FileNotFoundError:
            return
