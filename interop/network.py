"""A network namespace: Apache's servers listen on every interface, so they run where only loopback exists."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_NEW_USER = 0x10000000  # CLONE_NEWUSER: needs no privilege if the system allows it
_SET_FLAGS = 0x8914  # SIOCSIFFLAGS
_UP_AND_RUNNING = 0x41


def leave_the_network() -> str | None:
    """Move this thread, and all it starts from now on, into a network with only loopback; return why if it fails."""
    try:
        _unshare()
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))
    except (OSError, AttributeError) as error:
        return f"Apache's servers listen on every interface: no network namespace could be made ({error})"
    return None


def _unshare() -> None:
    """Create the namespace: directly as root, else inside a user namespace that maps this user to itself."""
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK) == 0:
        return
    if libc.unshare(_NEW_USER | _NEW_NETWORK):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"{user} {user} 1")
    (own / "gid_map").write_text(f"{group} {group} 1")
