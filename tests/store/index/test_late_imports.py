"""What a process that serves a broker has imported before its first request."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

INDEX_AND_FILTER = """
    import sys
    from pyromq.broker.sides.late_imports import import_readers

    import_readers()
    before = set(sys.modules)

    import numpy
    from pyromq.store.files import OsFiles
    from pyromq.store.index.index_file import Geometry
    from pyromq.store.index.index_writer import IndexWriter
    from pyromq.store.index.key_batch import hash_keys

    messages = []
    for number in range(5_000):
        messages += ["topic", b"KEYS\\x01a%d\\x02KEYS\\x01b%d\\x02" % (number, number), number, number]
    writer = IndexWriter(sys.argv[1], 1, Geometry(), OsFiles(), create=True)
    writer.put(hash_keys(messages))
    assert len(writer.take_pages(16)) > 1
    assert numpy.isin(numpy.arange(5_000), list(range(40))).any()
    print(*sorted(name for name in set(sys.modules) - before if name.startswith("numpy")))
"""


def test_neither_the_index_nor_a_filter_imports_more_of_numpy_when_it_is_first_used(tmp_path: object) -> None:
    command = [sys.executable, "-c", dedent(INDEX_AND_FILTER), f"{tmp_path}/index"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == []
