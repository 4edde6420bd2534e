"""Apache's mqadmin 4.9.8 on our servers: the output of every command compared with that on Apache's servers."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from interop.mqadmin_table import ROWS, Compare, Use, page
from interop.peer import Peer
from interop.servers import BROKER_NAME, CLUSTER, JAVA_OPTIONS, Broker, Kind, NameServer
from interop.toolkit import HERE, Toolkit

KINDS: tuple[Kind, ...] = ("apache", "pyromq")


class Desk:
    """A cluster with some messages, a live consumer, a live producer, and mqadmin."""

    def __init__(self, toolkit: Toolkit, admin: Peer, namesrv: str, directory: Path) -> None:
        self.names: dict[str, str] = {"cluster": CLUSTER, "dir": str(directory / "export")}
        self._toolkit = toolkit
        self._admin = admin
        self._namesrv = namesrv
        self._directory = directory

    def run(self, command: str, options: str) -> tuple[str, str]:
        """Run a command; return its output and its errors."""
        said = self._admin.call("Admin.run", command=self._line(command, options))
        return said["out"], said["err"]

    def wait_for(self, text: str, command: str, options: str) -> None:
        """Run a command until it prints a text; heartbeats and registrations take some seconds."""
        end = time.monotonic() + 60
        while text not in self.run(command, options)[0]:
            assert time.monotonic() < end, f"{command} never said {text}"
            time.sleep(0.5)

    def commands(self) -> list[str]:
        """Return the names of all commands that mqadmin has."""
        known: list[str] = self._admin.call("Admin.commands")
        return known

    @contextmanager
    def endless(self, command: str, options: str) -> Iterator[subprocess.Popen[str]]:
        """Run a command that does not end by itself, in a separate JVM."""
        java = [str(self._toolkit.java), *JAVA_OPTIONS, f"-Duser.home={self._directory}"]
        main = ["-cp", f"{self._toolkit.client}/*", "org.apache.rocketmq.tools.command.MQAdminStartup"]
        line = self._line(command, options).split(" ")
        environment = {**os.environ, "ROCKETMQ_HOME": str(self._toolkit.home)}
        process = subprocess.Popen([*java, *main, *line], stdout=subprocess.PIPE, text=True, env=environment)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def _line(self, command: str, options: str) -> str:
        return " ".join([command, "-n", self._namesrv, options.format(**self.names)]).strip()


@contextmanager
def opened(kind: Kind, toolkit: Toolkit, directory: Path, java: Peer) -> Iterator[Desk]:
    """Start a cluster of one kind in a known state."""
    with ExitStack() as stack:
        namesrv = stack.enter_context(NameServer(kind, toolkit, directory / "namesrv")).address
        settings = {"traceTopicEnable": "true"}
        broker = stack.enter_context(Broker(kind, toolkit, directory, namesrv, settings))
        admin = stack.enter_context(Peer(toolkit, directory / "admin"))
        desk = Desk(toolkit, admin, namesrv, directory)
        desk.names["b"] = broker.address
        desk.run("updateTopic", "-b {b} -t orders -r 4 -w 4")
        for queue in range(4):
            sent = java.call(
                "Sends.toQueue",
                namesrv=namesrv,
                topic="orders",
                broker=BROKER_NAME,
                queue=queue,
                first=5 * queue,
                count=5,
            )
            desk.names["id"], desk.names["offset_id"] = sent[2]["message_id"], sent[2]["offset_message_id"]
        with java.push(namesrv, "offline", "orders", tags="even") as leaves:
            assert len(leaves.take(10)) == 10
            leaves.rest()  # the last offsets are recorded after the listener has returned
        traced = java.call("Sends.sync", namesrv=namesrv, topic="traced", count=1, trace=True)
        desk.names["traced"] = traced[0]["message_id"]
        with java.push(namesrv, "billing", "orders") as leaves:
            assert len(leaves.take(20)) == 20
            leaves.rest()
        stack.enter_context(java.push(namesrv, "billing", "orders"))
        stack.enter_context(java.transactions(namesrv, "shop")).send("orders", 99, "ROLLBACK_MESSAGE")
        desk.wait_for("%RETRY%billing", "consumerProgress", "-g billing")
        desk.wait_for("CID_RMQ_SYS_TRANS", "topicList", "-c")
        yield desk


@pytest.fixture(scope="module")
def desks(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory, java: Peer) -> Iterator[dict[Kind, Desk]]:
    with ExitStack() as stack:
        yield {kind: stack.enter_context(opened(kind, toolkit, tmp_path_factory.mktemp(kind), java)) for kind in KINDS}


def uses(*, endless: bool) -> pytest.MarkDecorator:
    """Parametrize a test with every way to call every command."""
    chosen = [
        pytest.param(row.command, use, id=f"{row.command} {use.options}".strip())
        for row in ROWS
        for use in row.uses
        if (use.compare is Compare.ENDLESS) == endless
    ]
    return pytest.mark.parametrize(("command", "use"), chosen)


@uses(endless=False)
def test_a_command_says_the_same_on_both(desks: dict[Kind, Desk], command: str, use: Use) -> None:
    (apache, apache_error), (ours, error) = (desks[kind].run(command, use.options) for kind in KINDS)
    assert complaint(error) == complaint(apache_error) or use.compare is Compare.REFUSED, error
    if use.compare is Compare.LINES:
        assert lines(ours) == lines(apache)
    elif use.compare is Compare.SHAPE:
        assert shapes(ours) == shapes(apache)
    elif use.compare is Compare.NAMES:
        assert names(ours).keys() >= names(apache).keys()
    elif use.compare is Compare.SOME_NAMES:
        shared = names(ours).keys() & names(apache).keys()
        assert len(shared) > 3
        assert {name: names(ours)[name] for name in shared} == {name: names(apache)[name] for name in shared}
    else:
        assert error


@uses(endless=True)
def test_a_command_that_does_not_end_works_on_both(desks: dict[Kind, Desk], command: str, use: Use) -> None:
    apache, ours = (watch(desks[kind], command, use.options) for kind in KINDS)
    assert ours == apache


def watch(desk: Desk, command: str, options: str) -> list[str]:
    """Run an endless command until its output or effect shows that it works."""
    with desk.endless(command, options) as process:
        assert process.stdout is not None
        if command == "startMonitoring":  # it prints nothing, but is a consumer
            end = time.monotonic() + 30
            while "CONSUME_PASSIVELY" not in (said := desk.run("consumerConnection", "-g __MONITOR_CONSUMER")[0]):
                assert process.poll() is None
                assert time.monotonic() < end, said
                time.sleep(0.2)
            return []
        return [plain(process.stdout.readline()) for _ in range(3)]


def test_every_command_of_mqadmin_has_its_row(desks: dict[Kind, Desk]) -> None:
    assert sorted(row.command for row in ROWS) == sorted(desks["pyromq"].commands())


def test_the_page_about_mqadmin_is_up_to_date() -> None:
    assert (HERE.parent / "docs" / "mqadmin.md").read_text() == page()


# --- what is ignored -------------------------------------------------------------------------------------------------

_VARYING = [
    (r"\b[0-9A-F]{32,}\b", "ID"),
    (r"\d+(\.\d+){3}(:\d+)?@[\w#]+|[0-9a-f]*(:[0-9a-f]*){2,}@[\w#]+", "CLIENT"),
    (r"/?127\.0\.0\.1:\d+", "ADDRESS"),
    (r"/[\w./-]+/(apache|pyromq)\d*", "DIRECTORY"),
    (r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d[,:.]?\d*", "TIME"),
    (r"V4_9_\d", "VERSION"),
    (r"(?s)exceptionDesc=(?!null).*?(?=\]MessageTrack|\]\s*$)", "exceptionDesc=REMARK"),
    (r"listenPort += .*", "listenPort = PORT"),
    (r"rocketmqHome += .*", "rocketmqHome = HOME"),
    (r"Filter data: \nnull\n=+\n", ""),  # for a group without a SQL filter
    (r"eval=(true|false)", "eval"),
    (r"\d+\.\d+", "REAL"),
    (r"\b\d+ms\b", "ms"),
    (r"(?m)(true|false) +\d+$", r"\1 RT"),
    (r"\d{8,}", "NUMBER"),
    (r" +", " "),
]


def plain(text: str) -> str:
    """Return a text without what differs from run to run."""
    for pattern, put in _VARYING:
        text = re.sub(pattern, put, text)
    return text.strip()


def lines(text: str) -> list[str]:
    """Return the lines of an output, sorted: Apache's tools often print in the order of a hash table."""
    return sorted(filter(None, map(str.strip, plain(text).splitlines())))


def shapes(text: str) -> list[str]:
    """Return the lines of an output without any number."""
    return [re.sub(r"\d+|REAL|NUMBER", "N", line) for line in lines(text)]


def complaint(text: str) -> str:
    """Return the error without the server's own text."""
    return re.sub("DESC:.*", "DESC", plain(text.partition("\n")[0]))


def names(text: str) -> dict[str, str]:
    """Return an output of `name : value` or `name = value` as a table."""
    found = (re.match(r"(.*?)\s*[:=]\s+(.*)", line) for line in lines(text))
    return {match[1]: match[2] for match in found if match}
