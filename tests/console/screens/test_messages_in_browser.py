"""Messages, one message, dead letters, delays and transactions in a real browser, on a real broker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from pyromq import COMMIT, UNKNOWN, DeadLetter, Message, MessageExt, SendResult, TransactionState, blocking
from pyromq.admin import Letter
from pyromq.testing import LocalCluster, wait_until
from tests.console.site import BlockingSite


@pytest.fixture(scope="module")
def producer(console_cluster: LocalCluster) -> Iterator[blocking.Producer]:
    with blocking.Producer("browser-shop", console_cluster.namesrv, trace=True) as opened:
        yield opened


def order(topic: str, number: int, properties: dict[str, str] | None = None) -> Message:
    body = json.dumps({"number": number, "name": "<b>Ada</b>", "items": [{"sku": "s-1"}]}).encode()
    tags = "even" if number % 2 == 0 else "odd"
    return Message(topic=topic, body=body, keys=[f"o-{number}"], tags=tags, properties=properties or {})


def bodies(console: BlockingSite, topic: str) -> list[int]:
    async def read() -> list[int]:
        return [json.loads(message.body)["number"] async for message in console.admin.read(topic)]

    return sorted(console.ask(read()))


def test_messages_are_found_by_key_tag_and_body_and_one_is_opened(
    page: Page, console: BlockingSite, producer: blocking.Producer
) -> None:
    for number in range(12):
        producer.send(order("browse-find", number))
    page.goto(f"{console.url}/messages")
    form = page.locator("form.finder")
    form.get_by_label("Topic").fill("browse-find")
    form.get_by_label("Tags").fill("even")
    form.get_by_label("Condition").fill("body.number > 5")
    form.get_by_role("button", name="Search").click()
    expect(page.locator("#found-messages")).to_contain_text("3 found")
    expect(page.locator("#found-messages")).to_contain_text("That is all there is.")
    expect(page.locator("#found-messages tbody tr td:nth-child(2)")).to_have_text(["o-10", "o-8", "o-6"])
    page.locator("#found-messages tbody a").first.click()
    expect(page.locator("h1.id")).to_be_visible()
    expect(page.locator(".tree")).to_contain_text("<b>Ada</b>")
    expect(page.locator(".tree .v-number")).to_have_text("10")
    page.get_by_role("link", name="Hex").click()
    expect(page.locator("pre.hex")).to_contain_text("7b 22 6e 75 6d 62 65 72")


def test_a_search_stops_at_its_budget_says_where_and_goes_on(
    page: Page, console: BlockingSite, producer: blocking.Producer
) -> None:
    for number in range(60):
        producer.send(order("browse-many", number))
    page.goto(f"{console.url}/messages?topic=browse-many")
    found = page.locator("#found-messages")
    expect(found).to_contain_text("stopped at")
    first = page.locator("#found-messages tbody td:nth-child(2)").all_text_contents()
    page.get_by_role("link", name="Go on").click()
    expect(found).to_contain_text("That is all there is.")
    rest = page.locator("#found-messages tbody td:nth-child(2)").all_text_contents()
    assert sorted(first + rest) == sorted(f"o-{number}" for number in range(60))


def test_a_message_shows_its_trace_and_who_consumed_it_and_is_handled_and_sent_again(
    page: Page, console: BlockingSite, console_cluster: LocalCluster, producer: blocking.Producer
) -> None:
    handled: list[str] = []

    def listen(message: MessageExt) -> None:
        handled.append(message.message_id)

    sent: SendResult = producer.send(order("browse-one", 7, properties={"region": "north"}))
    with blocking.PushConsumer(
        "browse-group", console_cluster.namesrv, {"browse-one": "*"}, listen, start_from="earliest", trace=True
    ):
        wait_until(lambda: len(handled) == 1)
        page.goto(f"{console.url}/messages?id={sent.message_id}&topic=browse-one")
        expect(page.locator("h1.id")).to_have_text(sent.message_id)
        expect(page.locator("table.pairs").first).to_contain_text("north")
        wait_until(lambda: "consumed" in _reload(page, "#consumed"))
        wait_until(lambda: "Consumed" in _reload(page, "#trace"))
        expect(page.locator("#trace")).to_contain_text("browser-shop")
        page.get_by_role("button", name="Consume at one client").click()
        page.locator("dialog#consume").get_by_role("button", name="Hand it over").click()
        expect(page.locator(".toast.good")).to_contain_text("CR_SUCCESS")
        assert handled == [sent.message_id] * 2
    page.get_by_role("button", name="Resend").click()
    page.locator("dialog#resend").get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".toast.good")).to_contain_text("Sent again to browse-one")
    assert bodies(console, "browse-one") == [7, 7]


def _reload(page: Page, selector: str) -> str:
    page.reload()
    return page.locator(selector).inner_text()


def test_dead_letters_are_grouped_compared_exported_and_sent_again(
    page: Page, console: BlockingSite, console_cluster: LocalCluster, producer: blocking.Producer
) -> None:
    def fail(message: MessageExt) -> None:
        number = json.loads(message.body)["number"]
        raise DeadLetter(f"unknown currency 'X{number}'" if number < 4 else f"no answer after {number} s")

    for number in range(6):
        producer.send(order("browse-dead", number))

    def count() -> int:
        async def letters() -> list[Letter]:
            return [letter async for letter in console.admin.dead_letters.read("browse-bank")]

        try:
            return len(console.ask(letters()))
        except Exception:  # there is no such topic yet
            return 0

    with blocking.PushConsumer(
        "browse-bank", console_cluster.namesrv, {"browse-dead": "*"}, fail, start_from="earliest"
    ):
        wait_until(lambda: count() == 6)
    page.goto(f"{console.url}/dead-letters/browse-bank")
    causes = page.locator(".causes li")
    expect(causes).to_have_count(2)
    expect(causes.first).to_contain_text("unknown currency '…'")
    expect(causes.first.locator("b")).to_have_text("4")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    lines = download.value.path().read_text().splitlines()
    assert sorted(json.loads(json.loads(line)["body"])["number"] for line in lines) == list(range(6))

    page.locator("tr", has_text="o-5").locator("a").click()
    expect(page.locator(".tries li")).to_have_count(2)
    expect(page.locator(".tries li").first).to_contain_text("no answer after 5 s")
    page.go_back()
    page.locator("tr", has_text="o-5").get_by_role("checkbox").check()
    page.get_by_role("button", name="Resend ticked").click()
    expect(page.locator(".toast.good").first).to_contain_text("being sent again")
    wait_until(lambda: bodies(console, "browse-dead").count(5) == 2)

    page.goto(f"{console.url}/dead-letters/browse-bank?where=body.number < 2")
    page.get_by_role("button", name="Resend all that match").click()
    page.locator("dialog#resend-all").get_by_role("button", name="Send 2 again").click()
    expect(page.locator(".toast.good").first).to_contain_text("being sent again")
    wait_until(lambda: bodies(console, "browse-dead") == [0, 0, 1, 1, 2, 3, 4, 5, 5])


def test_a_delayed_message_is_shown_and_canceled(
    page: Page, console: BlockingSite, producer: blocking.Producer
) -> None:
    for delay in (600, 1200, 3000):
        producer.send(order("browse-later", delay), delay=delay)
    page.goto(f"{console.url}/delays?topic=browse-later")
    expect(page.locator("#pending tbody tr")).to_have_count(3)
    expect(page.locator("svg.bars rect:not(.hit)")).to_have_count(3)
    page.locator("#pending tbody tr", has_text="o-1200").get_by_role("button").click()
    page.locator("dialog[open]").get_by_role("button", name="Cancel the message").click()
    expect(page.locator(".toast.good")).to_contain_text("will not be delivered")

    async def waiting() -> list[str]:
        return [message.stored.keys[0] async for message in console.admin.timed_messages.pending("browse-later")]

    assert console.ask(waiting()) == ["o-600", "o-3000"]


def test_what_waits_at_a_delay_level_appears_on_the_open_page(
    page: Page, console: BlockingSite, producer: blocking.Producer
) -> None:
    page.goto(f"{console.url}/delays")
    producer.send(order("browse-level", 1), level=17)
    row = page.locator("#levels tbody tr", has_text="60 min")  # nobody loaded the page again
    expect(row).to_contain_text("browse-level")
    expect(row.locator(".with-bar")).to_have_text("1")
    assert (17, 1) in [(load.level, load.waiting) for load in console.ask(console.admin.timed_messages.levels())]


def test_open_transactions_are_listed(page: Page, console: BlockingSite, console_cluster: LocalCluster) -> None:
    with blocking.TransactionProducer(
        "browse-ledger", console_cluster.namesrv, check=lambda message: UNKNOWN
    ) as producer:
        producer.send_in_transaction(order("browse-half", 3), lambda message: UNKNOWN)
        page.goto(f"{console.url}/transactions")
        row = page.locator("#halves tr", has_text="browse-half")
        expect(row).to_contain_text("browse-ledger")
        expect(row).to_contain_text("o-3")
        page.get_by_role("link", name=re.compile("Given up")).click()
        expect(page.locator(".empty")).to_contain_text("Nothing was given up")


def test_a_given_up_transaction_is_resumed_and_then_committed(page: Page) -> None:
    decisions: list[TransactionState] = [UNKNOWN]
    with (
        LocalCluster(settings={"transactionCheckMax": 1}) as cluster,
        BlockingSite(cluster.namesrv) as console,
        blocking.TransactionProducer(
            "browse-payers", cluster.namesrv, check=lambda message: decisions[-1], clock=cluster.clock
        ) as producer,
    ):
        producer.send_in_transaction(order("browse-paid", 1), lambda message: UNKNOWN)
        cluster.clock.advance(seconds=130)  # asked once, and given up a minute later
        page.goto(f"{console.url}/transactions?state=given-up")
        page.locator("#halves tr", has_text="o-1").get_by_role("button", name="Resume").click()
        expect(page.locator(".toast.good")).to_contain_text("ask the producers of browse-payers about it again")
        expect(page.locator("#halves tr", has_text="o-1")).to_be_visible()  # among the open ones
        decisions.append(COMMIT)
        cluster.clock.advance(seconds=130)
        wait_until(lambda: bodies(console, "browse-paid") == [1])
        expect(page.locator("#transactions")).to_contain_text("No open transactions")  # the page follows
