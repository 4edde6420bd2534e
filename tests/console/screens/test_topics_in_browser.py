"""Topics and one topic in a real browser, on a real broker: what is clicked happens there."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from pyromq import Message, blocking
from pyromq.testing import LocalCluster, wait_until
from tests.console.site import BlockingSite


def open_new(page: Page, console: BlockingSite, topic: str, queues: int = 2) -> None:
    """Create a topic by the client, and open its page."""
    console.ask(console.admin.topics.create(topic, read_queues=queues, write_queues=queues))
    page.goto(f"{console.url}/topics/{topic}")


def test_a_topic_is_created_found_and_opened(page: Page, console: BlockingSite) -> None:
    page.goto(f"{console.url}/topics")
    page.get_by_role("button", name="Create topic").first.click()
    dialog = page.locator("dialog#create-topic")
    dialog.get_by_label("Name").fill("browser-created")
    dialog.get_by_label("Queues on each broker").fill("3")
    dialog.get_by_role("button", name="Create topic").click()
    expect(page.locator("h1")).to_have_text("browser-created")
    expect(page.locator(".toast.good")).to_contain_text("Created browser-created")
    found = console.ask(console.admin.topics.describe("browser-created"))
    assert [data.read_queue_nums for data in found.settings.values()] == [3]
    page.goto(f"{console.url}/topics")
    page.keyboard.press("/")
    page.keyboard.type("ser-crea")
    expect(page.locator("#list tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"q=ser-crea"))
    page.locator("#list tbody tr td.number").first.click()
    expect(page.locator("h1")).to_have_text("browser-created")


def test_what_is_wrong_with_a_form_stands_in_its_dialog(page: Page, console: BlockingSite) -> None:
    console.ask(console.admin.topics.create("browser-twice", read_queues=1, write_queues=1))
    page.goto(f"{console.url}/topics")
    page.get_by_role("button", name="Create topic").first.click()
    dialog = page.locator("dialog#create-topic")
    dialog.get_by_label("Name").fill("browser-twice")
    dialog.get_by_role("button", name="Create topic").click()
    expect(dialog.get_by_role("alert")).to_contain_text("already exists")


def test_a_sent_message_is_stored_and_the_tail_shows_it(
    page: Page, console: BlockingSite, console_cluster: LocalCluster
) -> None:
    open_new(page, console, "browser-sent")
    tail = page.context.new_page()
    tail.goto(f"{console.url}/topics/browser-sent/tail?where=body.total > 5")
    expect(tail.locator("[data-tail-status]")).to_contain_text("0 messages")
    with blocking.Producer("browser", console_cluster.namesrv) as producer:
        producer.send(Message(topic="browser-sent", body=b'{"total": 3}', tags="paid", keys=["o-3"]))
    page.get_by_role("button", name="Send message").click()
    dialog = page.locator("dialog#send")
    dialog.get_by_label("Body").fill('{"total": 7, "name": "<b>Ada</b>"}')
    dialog.get_by_label("Tag").fill("paid")
    dialog.get_by_label("Keys").fill("o-7")
    dialog.get_by_label("Properties").fill("region=EU")
    dialog.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".toast.good")).to_contain_text("Sent")
    expect(tail.locator("[data-tail-status]")).to_contain_text("2 messages")  # it looked at both
    row = tail.locator("details.row")
    expect(row).to_have_count(1)
    row.locator("summary").click()
    expect(row.locator("pre")).to_contain_text("<b>Ada</b>")
    expect(row.locator("b")).to_have_count(0)

    async def stored() -> list[tuple[str | None, tuple[str, ...], str | None]]:
        return [(m.tags, m.keys, m.properties.get("region")) async for m in console.admin.read("browser-sent")]

    assert ("paid", ("o-7",), "EU") in console.ask(stored())
    expect(page.locator("#queues tbody td:nth-child(3)")).to_have_text([re.compile(r"\d/s")] * 2)  # read twice by now


def test_a_delayed_message_waits(page: Page, console: BlockingSite) -> None:
    open_new(page, console, "browser-delayed")
    page.get_by_role("button", name="Send message").click()
    dialog = page.locator("dialog#send")
    dialog.get_by_label("Body").fill("later")
    dialog.get_by_label("Deliver after").fill("2")
    dialog.get_by_label("Unit").select_option("h")
    dialog.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".toast.good")).to_contain_text("Sent")

    async def waiting() -> list[str]:
        return [one.topic async for one in console.admin.timed_messages.pending("browser-delayed")]

    assert console.ask(waiting()) == ["browser-delayed"]


def test_a_topic_is_changed_and_widened(page: Page, console: BlockingSite) -> None:
    open_new(page, console, "browser-changed", 2)
    page.get_by_role("link", name="Settings and route").click()
    page.get_by_role("button", name="Change").click()
    page.locator("dialog#change select[name=perm]").select_option("r")
    page.locator("dialog#change").get_by_role("button", name="Change").click()
    expect(page.locator(".toast.good")).to_be_visible()
    page.get_by_role("button", name="Resize").click()
    page.locator("dialog#resize").get_by_label("Queues on each broker").fill("5")
    page.locator("dialog#resize").get_by_role("button", name="Resize").click()
    expect(page.locator(".job h2")).to_have_text(re.compile("Resiz"))
    wait_until(
        lambda: (
            {
                (data.read_queue_nums, data.perm)
                for data in console.ask(console.admin.topics.describe("browser-changed")).settings.values()
            }
            == {(5, 4)}
        )
    )
    expect(page.locator(".job h2")).to_have_text("Resized")  # the page follows


def test_a_deletion_says_what_goes_and_wants_the_name(
    page: Page, console: BlockingSite, console_cluster: LocalCluster
) -> None:
    open_new(page, console, "browser-deleted", 1)
    with blocking.Producer("browser", console_cluster.namesrv) as producer:
        producer.send(Message(topic="browser-deleted", body=b"gone"))
    page.get_by_role("button", name="Delete").click()
    dialog = page.locator("dialog#delete")
    expect(dialog.locator("#goes")).to_contain_text("1 messages in 1 queues")
    confirm = dialog.locator("input[name=confirm]")
    confirm.fill("browser-delete")
    dialog.get_by_role("button", name="Delete topic").click()
    assert "browser-deleted" in console.ask(console.admin.topics.names())
    confirm.fill("browser-deleted")
    dialog.get_by_role("button", name="Delete topic").click()
    expect(page.locator("h1")).to_have_text("Topics")
    assert "browser-deleted" not in console.ask(console.admin.topics.names())
