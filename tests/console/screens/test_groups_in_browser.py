"""Groups and one group in a real browser, on a real broker."""

from __future__ import annotations

import re
import threading

from playwright.sync_api import Page, expect

from pyromq import Message, blocking
from pyromq.protocol.messages.message import MessageExt
from pyromq.testing import LocalCluster, wait_until
from tests.console.site import BlockingSite


def consumed(cluster: LocalCluster, group: str, topic: str, count: int = 4) -> None:
    """Have a group consume some messages of a topic, and go offline."""
    seen: list[str] = []

    def listen(message: MessageExt) -> None:
        seen.append(message.message_id)

    with blocking.Producer(f"{group}-sender", cluster.namesrv) as producer:
        for number in range(count):
            producer.send(Message(topic=topic, body=str(number).encode()))
    with blocking.PushConsumer(group, cluster.namesrv, {topic: "*"}, listen, start_from="earliest"):
        wait_until(lambda: len(seen) == count)


def lag(console: BlockingSite, group: str) -> int:
    return int(console.ask(console.admin.groups.describe(group, watch=0)).lag)


def test_a_reset_shows_what_comes_again_and_does_it(
    page: Page, console: BlockingSite, console_cluster: LocalCluster
) -> None:
    consumed(console_cluster, "browser-reset", "browser-reset-topic")
    page.goto(f"{console.url}/groups/browser-reset")
    expect(page.locator("#findings")).to_contain_text("Nothing blocks this group")
    page.get_by_role("button", name="Reset offsets").first.click()
    dialog = page.locator("dialog#reset")
    dialog.get_by_label("the earliest message").check()
    expect(dialog.locator("#plan")).to_contain_text("4 messages come again")
    dialog.get_by_role("button", name="Reset offsets").click()
    expect(page.locator(".toast.good")).to_contain_text("4 messages come again")
    assert lag(console, "browser-reset") == 4


def test_a_clone_continues_where_the_other_is(page: Page, console: BlockingSite, console_cluster: LocalCluster) -> None:
    consumed(console_cluster, "browser-source", "browser-clone-topic", 3)
    page.goto(f"{console.url}/groups/browser-source")
    page.get_by_role("button", name="Clone").first.click()
    dialog = page.locator("dialog#clone")
    dialog.get_by_label("Name of the other group").fill("browser-target")
    dialog.get_by_role("button", name="Clone").click()
    expect(page.locator("h1")).to_have_text("browser-target")
    offsets = [row.committed_offset for row in console.ask(console.admin.groups.describe("browser-target")).queues]
    assert sum(offsets) == 3


def test_a_group_is_created_changed_and_deleted(page: Page, console: BlockingSite) -> None:
    page.goto(f"{console.url}/groups")
    page.get_by_role("button", name="Create group").click()
    dialog = page.locator("dialog#create-group")
    dialog.get_by_label("Name").fill("browser-group")
    dialog.get_by_role("button", name="Create group").click()
    expect(page.locator("h1")).to_have_text("browser-group")
    page.get_by_role("button", name="Change").click()
    page.locator("dialog#change").get_by_label("Tries before").fill("3")
    page.locator("dialog#change").get_by_label("May consume").uncheck()
    page.locator("dialog#change").get_by_role("button", name="Change").click()
    expect(page.locator(".toast.good")).to_contain_text("Changed")
    expect(page.locator("#findings")).to_contain_text("does not let the group consume")
    settings = console.ask(console.admin.groups.describe("browser-group")).settings
    assert {(one.retry_max_times, one.consume_enable) for one in settings.values()} == {(3, False)}
    page.get_by_role("button", name="Delete").click()
    page.locator("dialog#delete input[name=confirm]").fill("browser-group")
    page.locator("dialog#delete").get_by_role("button", name="Delete group").click()
    expect(page.locator("h1")).to_have_text("Groups")
    assert "browser-group" not in console.ask(console.admin.groups.names())


def test_a_member_and_what_it_is_doing_are_shown(
    page: Page, console: BlockingSite, console_cluster: LocalCluster
) -> None:
    busy, free = threading.Event(), threading.Event()

    def listen_for_long(message: MessageExt) -> None:
        busy.set()
        free.wait(60)

    with blocking.Producer("stuck-sender", console_cluster.namesrv) as producer:
        producer.send(Message(topic="browser-stuck", body=b"x"))
        consumer = blocking.PushConsumer(
            "browser-stuck", console_cluster.namesrv, {"browser-stuck": "*"}, listen_for_long, start_from="earliest"
        )
        with consumer:
            assert busy.wait(20)
            page.goto(f"{console.url}/groups/browser-stuck")
            expect(page.locator("#members tbody tr")).to_have_count(1)
            expect(page.locator("#members")).to_contain_text("PYTHON")
            expect(page.get_by_role("button", name="Delete")).to_be_disabled()
            # A moment without a commit is no alarm; ten seconds are.
            expect(page.locator("#progress")).to_contain_text(re.compile("1 in hand|the listener has had message"))
            page.locator("#members").get_by_role("link", name="What it is doing").click()
            expect(page.locator("pre.stack")).to_contain_text("listen_for_long")
            free.set()
