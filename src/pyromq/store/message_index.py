"""The index of keys: collects what was stored, puts it into files in batches, and finds it again.

Keys wait in memory until there are enough of them for a fast batch, or a flush comes; a query puts them into the file
first, so a message is found as soon as it can be seen. A lock guards all of it: the flusher has its own thread, and a
query may have one.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pyromq.store.files import OsFiles, is_no_space, make_directories, store_error
from pyromq.store.index_file import (
    ENTRY,
    HEADER,
    NAME_LENGTH,
    SLOT,
    Geometry,
    IndexFile,
    IndexHeader,
    file_number,
    walk_chain,
)
from pyromq.store.index_mark import IndexMark, MarkFile
from pyromq.store.key_hash import StoredKeys, key_hash

if TYPE_CHECKING:
    from pyromq.store.index_writer import IndexWriter
    from pyromq.store.key_batch import KeyBatch

logger = logging.getLogger(__name__)
