"""Real database servers for tests, each in a directory and on a port of its own; skipped if they are not installed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

_PATIENCE = 60.0


DATABASES = ("sqlite", "postgresql", "mariadb")


def database(name: str, directory: Path) -> AbstractContextManager[str]:
    """Run a database of this kind in a directory; its value is the URL."""
    if name == "sqlite":
        return nullcontext(f"sqlite:///{directory}/shop.db?timeout=30")
    return {"postgresql": postgresql, "mariadb": mariadb}[name](directory)


@contextmanager
def postgresql(directory: Path) -> Iterator[str]:
    """Run PostgreSQL; yield the URL of a database, for psycopg."""
    programs = _newest("/usr/lib/postgresql/*/bin/initdb", "initdb")
    user = _server_user(directory, "postgres")
    data, port = directory / "data", _free_port()
    _run([programs / "initdb", "-D", data, "-U", "test", "-A", "trust", "-N", "--locale=C", "-E", "UTF8"], user)
    command: list[str | Path] = [
        programs / "postgres",
        "-D",
        data,
        "-p",
        str(port),
        "-h",
        "127.0.0.1",
        "-k",
        directory,
        "-F",
    ]
    with _running(command, user, directory, "database system is ready to accept connections"):
        yield f"postgresql+psycopg://test@127.0.0.1:{port}/postgres"


@contextmanager
def mariadb(directory: Path) -> Iterator[str]:
    """Run MariaDB; yield the URL of a database, for PyMySQL."""
    install, server = shutil.which("mariadb-install-db"), shutil.which("mariadbd", path=f"{os.defpath}:/usr/sbin")
    if install is None or server is None:
        pytest.skip("MariaDB is not installed (Debian: mariadb-server)")
    user = _server_user(directory, "mysql")
    data, port = directory / "data", _free_port()
    account = [f"--user={user}"] if user else []  # it changes to that account by itself, with its groups
    _run([install, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", *account])
    command = [
        server, "--no-defaults", *account, f"--datadir={data}", f"--port={port}", "--bind-address=127.0.0.1",
        f"--socket={directory}/socket", f"--pid-file={directory}/pid", "--innodb-buffer-pool-size=32M",
    ]  # fmt: skip
    with _running(command, None, directory, "ready for connections"):
        yield f"mysql+pymysql://root@127.0.0.1:{port}/test?charset=utf8mb4"


def _newest(pattern: str, name: str) -> Path:
    """Return the directory of a program."""
    found = sorted(Path("/").glob(pattern.lstrip("/")))
    if found:
        return found[-1].parent
    if (path := shutil.which(name)) is not None:
        return Path(path).parent
    pytest.skip("PostgreSQL is not installed (Debian: postgresql)")


def _server_user(directory: Path, name: str) -> str | None:
    """Return the account that a server runs as, None for our own: root may not run one."""
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(name)
    except KeyError:
        pytest.skip(f"there is no account {name} that the server could run as")
    shutil.chown(directory, name)
    for parent in (directory, *directory.parents):
        if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    return name


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _run(command: Sequence[str | Path], user: str | None = None) -> None:
    done = subprocess.run(command, user=user, capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def _running(command: Sequence[str | Path], user: str | None, directory: Path, ready: str) -> Iterator[None]:
    """Run a server that says in its log when it is ready; its port is open before that."""
    log = directory / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, user=user, stdout=output, stderr=output, cwd="/")
    try:
        _wait(process, log, ready)
        yield
    finally:
        process.terminate()
        process.wait()


def _wait(process: subprocess.Popen[bytes], log: Path, ready: str) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and process.poll() is None:
        if ready in log.read_text():
            return
        time.sleep(0.05)
    pytest.fail(f"the server did not start:\n{log.read_text()[-2000:]}")
