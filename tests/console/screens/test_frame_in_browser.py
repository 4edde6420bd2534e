"""What all screens share, in a real browser: overview, search, keys, looks, languages, live parts, accessibility."""

from __future__ import annotations

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from pyromq import Message, blocking
from pyromq.console.web.navigation import MENU
from pyromq.testing import LocalCluster
from tests.console.screens.test_groups_in_browser import consumed
from tests.console.site import BlockingSite

SCREENS = (*(entry.path for entry in MENU), "/topics/TBW102", "/topics/TBW102/tail", "/topics/TBW102/settings",
           "/groups/TOOLS_CONSUMER", "/search?q=t")  # fmt: skip


def test_the_overview_follows_what_happens(page: Page, console: BlockingSite, console_cluster: LocalCluster) -> None:
    page.goto(console.url)
    expect(page.locator("#brokers tbody tr")).to_have_count(1)
    waiting = page.locator("#slowest")
    expect(waiting).not_to_contain_text("browser-live")
    consumed(console_cluster, "browser-live", "browser-live", 1)
    with blocking.Producer("live", console_cluster.namesrv) as producer:
        for number in range(9):
            producer.send(Message(topic="browser-live", body=str(number).encode()))
    expect(waiting).to_contain_text("browser-live")  # nobody loaded the page again


def test_keys_lead_to_screens_and_search(page: Page, console: BlockingSite) -> None:
    page.goto(console.url)
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.locator("h1")).to_have_text("Topics")
    page.keyboard.press("g")
    page.keyboard.press("g")
    expect(page.locator("h1")).to_have_text("Groups")
    page.keyboard.press("?")
    expect(page.locator("dialog#help")).to_be_visible()
    page.keyboard.press("Escape")
    page.goto(console.url)
    page.keyboard.press("/")
    page.keyboard.type("TBW1")
    expect(page.locator("#found a").first).to_have_text(re.compile("TBW102"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("TBW102")


def test_dark_and_chinese_stay_for_the_next_page(page: Page, console: BlockingSite) -> None:
    page.goto(console.url)
    page.locator("#theme").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.get_by_role("link", name="中文").click()
    expect(page.locator("h1")).to_have_text("概览")
    page.goto(f"{console.url}/topics")
    expect(page.locator("h1")).to_have_text("主题")
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_at_400_pixels_nothing_is_wider_than_the_screen(page: Page, console: BlockingSite) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    for path in SCREENS:
        page.goto(console.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
    page.locator("#burger").click()
    page.get_by_role("link", name="Overview").click()
    expect(page.locator("h1")).to_have_text("Overview")


def test_axe_finds_nothing_serious_in_light_and_dark(browser: Browser, console: BlockingSite) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 860}, color_scheme="light", bypass_csp=True)
    page, axe, found = context.new_page(), Axe(), []
    for path in SCREENS:
        page.emulate_media(color_scheme="light")
        page.goto(console.url + path)
        violations = axe.run(page, options={"resultTypes": ["violations"]}).response["violations"]
        page.emulate_media(color_scheme="dark")  # only colours change, and the page has axe by now
        violations += page.evaluate("axe.run({runOnly: ['color-contrast']})")["violations"]
        found += [
            (path, violation["id"], [node["target"] for node in violation["nodes"]][:3])
            for violation in violations
            if violation["impact"] in ("serious", "critical")
        ]
    context.close()
    assert not found
