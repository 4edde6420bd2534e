"""`pyromq console` on Apache's servers and on ours: each screen opens, acts where 4.9 can, and says where it cannot."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from interop.conftest import Cluster
from interop.servers import Server, pyromq_command
from pyromq import DeadLetter, Message, MessageExt, SendResult, blocking
from pyromq.admin import AdminClient
from pyromq.console.web.navigation import MENU
from pyromq.testing import wait_until

T = TypeVar("T")


class Browser:
    """The console as a process, somebody who is signed in, and a client to look at what became of an act."""

    def __init__(self, cluster: Cluster, url: str, password: str) -> None:
        self.namesrv = cluster.namesrv
        self.is_apache = cluster.kind == "apache"
        self._http = httpx.Client(base_url=url, timeout=60)
        signed = self._http.post("/login", data={"name": "admin", "password": password, "next": "/"})
        assert signed.status_code == 303, signed.text
        found = re.search(r'name="csrf" content="([^"]+)"', self._http.get("/").text)
        assert found
        self._token = found[1]

    def open(self, path: str, **query: str) -> str:
        """Open a page, which must have no banner with an error."""
        answer = self._http.get(path, params=query or None)
        assert answer.status_code == 200, (path, answer.text[-2000:])
        assert "toast bad" not in answer.text, path
        assert "cannot be read" not in answer.text, path
        return answer.text

    def act(self, path: str, **fields: str) -> str:
        """Send a form; return the page to which it leads."""
        return self.open(self._post(path, fields, 303).headers["location"])

    def refused(self, path: str, **fields: str) -> str:
        """Send a form that is refused; return the reason."""
        return self._post(path, fields, 422).text

    def _post(self, path: str, fields: dict[str, str], code: int) -> httpx.Response:
        answer = self._http.post(path, data={"csrf": self._token, **fields})
        assert answer.status_code == code, (path, answer.status_code, answer.text[-2000:])
        return answer

    def ask(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        """Ask the brokers themselves."""

        async def asked() -> T:
            async with AdminClient(self.namesrv) as admin:
                return await work(admin)

        return asyncio.run(asked())

    def stored(self, topic: str) -> list[MessageExt]:
        """Return what a topic holds."""

        async def read(admin: AdminClient) -> list[MessageExt]:
            return [message async for message in admin.read(topic)]

        return self.ask(read)


@pytest.fixture(scope="module")
def consoles() -> Iterator[dict[str, tuple[Server, Browser]]]:
    started: dict[str, tuple[Server, Browser]] = {}
    yield started
    for server, _ in started.values():
        server.stop()
        assert "Traceback" not in server.said()


@pytest.fixture
def browser(
    cluster: Cluster, consoles: dict[str, tuple[Server, Browser]], tmp_path_factory: pytest.TempPathFactory
) -> Browser:
    """A console of either cluster, one for all tests."""
    if cluster.kind not in consoles:
        data: Path = tmp_path_factory.mktemp("console")
        command = pyromq_command("console", "-n", cluster.namesrv, "--port", "0", "--data", str(data))
        server = Server(command, data / "console.log", "console ready: ")
        found = re.search(r"password (\S+) .*\n.*ready: (http://\S+)", server.said())
        assert found, server.said()
        consoles[cluster.kind] = server, Browser(cluster, found[2], found[1])
    return consoles[cluster.kind][1]


def send(namesrv: str, topic: str, *numbers: int) -> list[SendResult]:
    with blocking.Producer("console-sender", namesrv) as producer:
        return [
            producer.send(Message(topic=topic, body=f'{{"n": {number}}}'.encode(), keys=[f"k-{number}"]))
            for number in numbers
        ]


def consume(namesrv: str, group: str, topic: str, count: int, *, fails: bool = False) -> None:
    seen: list[str] = []

    def listen(message: MessageExt) -> None:
        seen.append(message.message_id)
        if fails:
            raise DeadLetter("unknown currency")

    with blocking.PushConsumer(group, namesrv, {topic: "*"}, listen, start_from="earliest"):
        wait_until(lambda: len(seen) >= count, seconds=60)


def test_each_screen_opens(browser: Browser, name: str) -> None:
    browser.act("/topics", topic=name, queues="2")
    (sent,) = send(browser.namesrv, name, 1)
    consume(browser.namesrv, name, name, 1)
    wait_until(lambda: name in browser.open("/groups"))  # lists come from a snapshot, every few seconds
    pages = {entry.path: browser.open(entry.path) for entry in MENU}
    topic, message = f"/topics/{name}", f"/messages/{name}/{sent.message_id}"
    for path in (topic, f"{topic}/tail", f"{topic}/settings", f"{topic}/delete", f"{topic}/sample"):
        pages[path] = browser.open(path)
    for path in (message, f"{message}?view=hex", f"/groups/{name}", f"/groups/{name}?watch=1", f"/search?q={name}"):
        pages[path] = browser.open(path)
    pages["preview"] = browser.open(f"/groups/{name}/reset", to="earliest")
    assert "1 messages come again" in pages["preview"]
    assert re.search(r">V4_9_\d+<" if browser.is_apache else r">PyroMQ [\d.]+<", pages["/"])
    assert name in pages["/topics"]
    for path, reason in (("/delays", "list and cancel delayed messages"), ("/transactions", "list half messages")):
        assert ("Not on this cluster" in pages[path]) == browser.is_apache, path
        assert (f"brokers {reason}" in pages[path]) == browser.is_apache, path


def test_a_topic_is_created_changed_resized_and_deleted(browser: Browser, name: str) -> None:
    assert f"Created {name}" in browser.act("/topics", topic=name, queues="3")
    assert "already exists" in browser.refused("/topics", topic=name, queues="3")
    browser.act(f"/topics/{name}/settings", perm="r")
    browser.act(f"/topics/{name}/resize", queues="5")

    def found() -> set[tuple[int, int]]:
        described = browser.ask(lambda admin: admin.topics.describe(name))
        return {(data.read_queue_nums, data.perm) for data in described.settings.values()}

    wait_until(lambda: found() == {(5, 4)}, seconds=60)
    browser.act(f"/topics/{name}/delete", confirm=name)
    assert name not in browser.ask(lambda admin: admin.topics.names())


def test_a_message_is_sent_found_and_sent_again(browser: Browser, name: str) -> None:
    browser.act("/topics", topic=name, queues="1")
    fields = {"body": '{"total": 7}', "tags": "paid", "keys": "o-7", "properties": "region=EU"}
    assert "Sent" in browser.act(f"/topics/{name}/send", **fields)
    (stored,) = browser.stored(name)
    assert (stored.tags, stored.keys, stored.properties["region"]) == ("paid", ("o-7",), "EU")
    for query in ({"key": "o-7"}, {"tags": "paid"}, {"where": "body.total > 5"}, {"where": "region = 'EU'"}):
        assert "1 found" in browser.open("/messages", topic=name, **query), query
    assert "Sent again" in browser.act(f"/messages/{name}/{stored.message_id}/resend")
    assert [message.body for message in browser.stored(name)] == [b'{"total": 7}'] * 2


def test_a_level_delays_everywhere_and_any_time_only_ours(browser: Browser, name: str) -> None:
    browser.act("/topics", topic=name, queues="1")
    browser.act(f"/topics/{name}/send", body="much later", level="18")
    level = '<td>18</td><td class="number">3 h</td>'  # as interop/servers.py has it
    wait_until(lambda: level in browser.open("/delays"), seconds=20)  # Apache's notes a level at its next look
    browser.act(f"/topics/{name}/send", body="soon", level="1")
    wait_until(lambda: [message.body for message in browser.stored(name)] == [b"soon"], seconds=60)
    page = browser.open(f"/topics/{name}")
    reason = "brokers delay messages to any time; these have RocketMQ&#39;s 18 levels"
    assert (reason in page) == browser.is_apache
    field = re.search(r'<input name="delay"[^>]*>', page)
    assert field
    assert ("disabled" in field[0]) == browser.is_apache
    submit = browser.refused if browser.is_apache else browser.act
    assert (reason in submit(f"/topics/{name}/send", body="x", delay="2")) == browser.is_apache  # also by hand


def test_a_group_is_reset_cloned_changed_and_deleted(browser: Browser, name: str) -> None:
    browser.act("/topics", topic=name, queues="2")
    send(browser.namesrv, name, 1, 2, 3)
    consume(browser.namesrv, name, name, 3)

    def lag(group: str) -> int:
        return browser.ask(lambda admin: admin.groups.describe(group, watch=0)).lag

    wait_until(lambda: lag(name) == 0, seconds=60)
    assert "3 messages come again" in browser.act(f"/groups/{name}/reset", to="earliest")
    assert lag(name) == 3
    browser.act(f"/groups/{name}/clone", target=f"{name}-twin")
    assert lag(f"{name}-twin") == 3
    browser.act(f"/groups/{name}/settings", consume_enable="on", retry_max_times="3", retry_queue_nums="1")
    settings = browser.ask(lambda admin: admin.groups.describe(name, watch=0)).settings
    assert {one.retry_max_times for one in settings.values()} == {3}
    browser.act(f"/groups/{name}/delete", confirm=name)
    assert name not in browser.ask(lambda admin: admin.groups.names())


def test_dead_letters_are_listed_and_sent_again(browser: Browser, name: str) -> None:
    browser.act("/topics", topic=name, queues="1")
    send(browser.namesrv, name, 1)
    consume(browser.namesrv, name, name, 1, fails=True)
    wait_until(lambda: f"%DLQ%{name}" in browser.ask(lambda admin: admin.topics.names()), seconds=60)
    wait_until(lambda: len(browser.stored(f"%DLQ%{name}")) == 1, seconds=60)
    page = browser.open(f"/dead-letters/{name}")
    assert "k-1" in page
    assert ("unknown currency" in page) != browser.is_apache  # whose brokers drop what a client says with a failure
    browser.act(f"/dead-letters/{name}/resend", all="on")
    wait_until(lambda: len(browser.stored(name)) == 2, seconds=60)


def test_a_setting_is_changed_and_the_audit_log_has_it(browser: Browser) -> None:
    assert "fileReservedTime is 71 now" in browser.act("/configuration", key="fileReservedTime", value="71")
    (server,) = browser.ask(lambda admin: admin.settings.of_brokers())
    assert server.settings["fileReservedTime"].value == "71"
    assert "change configuration" in browser.open("/audit", source="console", q="fileReservedTime")
    browser.act("/configuration", key="fileReservedTime", value="72")
