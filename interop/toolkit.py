"""Apache's released software and our Java programs, fetched and compiled once into a cache outside the repository."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
OLDEST_JAVA = 17
_COPY = "dependency:copy-dependencies"
_RESOLVE_TIMEOUT = 600.0

_LOGBACK = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %level %logger{20} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="OUT"/></root>
</configuration>
"""


class Missing(Exception):
    """Something that these tests need is missing; the text says what."""


class Toolkit(NamedTuple):
    """Where everything is."""

    java: Path
    client: Path
    """Jars of Apache's client and mqadmin."""
    servers: Path
    """Jars of Apache's broker and name server."""
    programs: Path
    """Classes of our own Java programs."""
    home: Path
    """ROCKETMQ_HOME for Apache's programs; it only configures logging, which is off for mqadmin."""


def prepare() -> Toolkit:
    """Return the toolkit, fetching and compiling what is missing; raise Missing."""
    java = find_java()
    cache = cache_directory()
    client = resolve(cache, HERE / "poms" / "client.xml")
    servers = resolve(cache, HERE / "poms" / "servers.xml")
    programs = _compile(cache, java, client)
    return Toolkit(java, client, servers, programs, _home(cache))


def cache_directory() -> Path:
    """Return the cache directory: `$XDG_CACHE_HOME/pyromq-interop`, by default below ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pyromq-interop"


def find_java() -> Path:
    """Find a recent enough Java with a compiler."""
    own = os.environ.get("JAVA_HOME")
    found = str(Path(own) / "bin" / "java") if own else shutil.which("java")
    if found is None or not Path(found).exists():
        raise Missing(f"no Java: set JAVA_HOME or put java {OLDEST_JAVA} or later on the PATH")
    said = subprocess.run([found, "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < OLDEST_JAVA:
        raise Missing(f"Java {OLDEST_JAVA} or later is needed; {found} is {said.splitlines()[:1]}")
    java = Path(found).resolve()
    if not java.with_name("javac").exists():
        raise Missing(f"no javac beside {java}: a JDK is needed, not only a JRE")
    return java


def resolve(cache: Path, pom: Path) -> Path:
    """Let Maven copy the artifacts of a pom, with their dependencies, into the cache."""
    maven = shutil.which("mvn")
    target = cache / f"{pom.stem}-{_digest([pom])}"

    def fetch(part: Path) -> None:
        if maven is None:
            raise Missing("no Maven: put mvn on the PATH")
        command = [maven, "-q", "-B", "-f", str(pom), _COPY, f"-DoutputDirectory={part}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_RESOLVE_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise Missing("Maven Central is too slow, or away") from None
        if done.returncode:
            reason = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr)
            raise Missing(f"Maven could not fetch Apache's software: {reason.partition('[ERROR]')[2].strip()}")

    return _made_once(target, fetch)


def _compile(cache: Path, java: Path, client: Path) -> Path:
    """Compile our Java programs."""
    sources = sorted((HERE / "java").glob("*.java"))

    def compile_to(part: Path) -> None:
        command = [str(java.with_name("javac")), "-nowarn", "-cp", f"{client}/*", "-d", str(part), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)

    return _made_once(cache / f"programs-{_digest([*sources, client])}", compile_to)


def _home(cache: Path) -> Path:
    """Create a ROCKETMQ_HOME with which servers log to standard output."""
    home = cache / "home"
    (home / "conf").mkdir(parents=True, exist_ok=True)
    for program, text in (("namesrv", _LOGBACK), ("broker", _LOGBACK), ("tools", "<configuration/>")):
        (home / "conf" / f"logback_{program}.xml").write_text(text)
    return home


def _made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return a directory that is created completely or not at all."""
    if not target.exists():
        part = target.with_name(f"{target.name}.{os.getpid()}")
        part.mkdir(parents=True)
        try:
            make(part)
            with suppress(OSError):  # another run may have been faster
                part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return target


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes() if path.is_file() else str(path).encode())
    return digest.hexdigest()[:12]
