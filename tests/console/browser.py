"""Chromium for tests of the console, and a console for it to show. Import the fixtures into a conftest.

One browser serves all tests of a file; each test gets a page of its own. Playwright runs an event loop in this thread
until it is closed, and no other test could run one meanwhile. Without Chromium these tests skip.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from pyromq.testing import LocalCluster
from tests.console.site import BlockingSite

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE_MS = 20_000
EXPECTED = ("Failed to load resource", "Response Status Error Code", "Blocked script execution in")
"""What Chromium and htmx say of answers such as 422, and of scripts in a sandbox, which tests ask for."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def console(console_cluster: LocalCluster) -> Iterator[BlockingSite]:
    """A console where nobody signs in, as in `pyromq up`."""
    with BlockingSite(console_cluster.namesrv) as site:
        yield site


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page whose scripts must not fail, and which must keep to the security policy."""
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(EXPECTED):
            complaints.append(message.text)

    context = browser.new_context(viewport={"width": 1280, "height": 860}, locale="en-GB")
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE_MS)
    opened.on("console", note)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    context.close()
    if complaints:
        pytest.fail("; ".join(complaints))
