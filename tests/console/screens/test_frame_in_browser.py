"""What all screens share, in a real browser: overview, search, keys, looks, languages, live parts, accessibility."""

from __future__ import annotations

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, expect

from pyromq import Message, blocking
from pyromq.console.web.navigation import MENU
from pyromq.testing import LocalCluster
from tests.console.screens.test_groups_in_browser import consumed
from tests.console.site import BlockingSite

SCREENS = (*(entry.path for entry in MENU if entry.path != "/messages"), "/messages?topic=seen", "/topics/seen",
           "/topics/seen/tail", "/topics/seen/settings", "/groups/seen", "/search?q=t")  # fmt: skip
LARGE, SMALL = ViewportSize(width=1280, height=860), ViewportSize(width=400, height=800)

SETTLED_WIDTH = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(
    () => done(document.documentElement.scrollWidth))))"""
"""Charts follow a change of the window in the next frame."""


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


def test_the_menu_of_a_small_screen_opens_and_leads_on(page: Page, console: BlockingSite) -> None:
    page.set_viewport_size(SMALL)
    page.goto(f"{console.url}/topics")
    page.locator("#burger").click()
    page.get_by_role("link", name="Overview").click()
    expect(page.locator("h1")).to_have_text("Overview")


def test_every_screen_is_accessible_in_light_and_dark_and_fits_a_small_screen(
    browser: Browser, console: BlockingSite, console_cluster: LocalCluster
) -> None:
    consumed(console_cluster, "seen", "seen")
    with blocking.Producer("seen", console_cluster.namesrv) as producer:  # something in each table
        message_id = producer.send(Message(topic="seen", body=b'{"n": 1}', keys=["k"], tags="t")).message_id
        producer.send(Message(topic="seen", body=b"timed"), delay=3600)
        producer.send(Message(topic="seen", body=b"level"), level=18)
    context = browser.new_context(viewport=LARGE, bypass_csp=True)
    page, axe, found = context.new_page(), Axe(), list[object]()
    for path in (*SCREENS, f"/messages/seen/{message_id}"):
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(LARGE)
        page.goto(console.url + path)
        page.evaluate(axe.axe_script)
        found += [(path, "light", one) for one in serious(page, path)]
        page.emulate_media(color_scheme="dark")  # only colours change
        found += [(path, "dark", one) for one in serious(page, path, runOnly=["color-contrast"])]
        page.set_viewport_size(SMALL)
        if (width := page.evaluate(SETTLED_WIDTH)) > SMALL["width"]:
            found.append((path, "is wider than the screen", width))
    context.close()
    assert not found


def serious(page: Page, path: str, **options: object) -> list[tuple[str, list[str]]]:
    """Return what axe finds: in the frame around all screens on the first one, and in what each shows of its own."""
    script = "([part, options]) => axe.run(part, options).then((result) => result.violations)"
    wanted = {"resultTypes": ["violations"], "iframes": False, "preload": False, **options}
    violations = page.evaluate(script, ["html" if path == "/" else "main", wanted])
    return [
        (violation["id"], [node["target"] for node in violation["nodes"]][:3])
        for violation in violations
        if violation["impact"] in ("serious", "critical")
    ]
