"""Keep the host of a virtual machine from taking back the memory that is free.

    python -m bench.peers.held_memory [--gib 16]     # leave it running beside a measurement; Ctrl-C ends it

Hosts may take free memory of their guests, in pieces of 2 MiB (free page reporting). The next use of each page then
waits for the host: 10 µs for 4 KiB were seen, five times what is usual. Brokers that write new files pay that for every
page, all of them alike, so their figures come closer to each other than they are.

This touches memory once, then gives back all but one page in each MiB. What is free now lies in pieces that no host
takes, and is as quick as on a machine of its own. A few MiB are in use meanwhile.
"""

from __future__ import annotations

import argparse
import mmap
import signal
from contextlib import suppress

_STEP = 1 << 20
_PAGE = mmap.PAGESIZE


def hold(size: int) -> mmap.mmap:
    """Touch so many bytes of new memory and give them back, but for a page in each MiB, which the result holds."""
    held = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    held.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, size, _PAGE):
        held[at] = 1
    for at in range(0, size, _STEP):
        held.madvise(mmap.MADV_DONTNEED, at + _PAGE, _STEP - _PAGE)
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=int, default=16, help="of memory; leave some for the brokers (%(default)s)")
    with hold(parser.parse_args().gib << 30), suppress(KeyboardInterrupt):
        print("held: measure now", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
