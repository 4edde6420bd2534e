"""Take pictures of the console: `python -m docsite.screenshots [--out DIR] [--only NAME] [--all | --serve]`."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Final

from playwright.async_api import Browser, async_playwright

from docsite.screenshots.sample_shop import sample_shop

CHROMIUM: Final = "/usr/bin/chromium"
DOCS: Final = Path(__file__).parent.parent.parent / "docs" / "images"
SCREENS: Final = {
    "overview": "/",
    "topics": "/topics",
    "topic": "/topics/orders",
    "topic-tail": "/topics/orders/tail",
    "groups": "/groups?sort=-lag",
    "group": "/groups/fraud-check",
    "messages": "/messages?topic=orders",
    "dead-letters": "/dead-letters",
    "dead-letters-of": "/dead-letters/mailer",
    "delays": "/delays",
    "transactions": "/transactions",
    "clients": "/clients",
    "pipelines": "/pipelines",
    "configuration": "/configuration",
    "access": "/access",
    "audit": "/audit",
}
IN_DOCS: Final = (("overview", "light"), ("topic", "dark"), ("group", "light"))
"""The pictures that the documentation shows; the others are for those who change the console."""
LOOKS: Final = {"light": (1280, "light"), "dark": (1280, "dark"), "phone": (400, "light")}


async def take(browser: Browser, url: str, name: str, look: str, target: Path, language: str = "en-GB") -> None:
    """Take one picture."""
    width, scheme = LOOKS[look]
    page = await browser.new_page(
        viewport={"width": width, "height": 860},
        color_scheme="dark" if scheme == "dark" else "light",
        locale=language,
        timezone_id="Europe/Berlin",
    )
    await page.goto(url + SCREENS[name])
    await page.wait_for_timeout(
        4500 if name in ("topic", "topic-tail", "group") else 700
    )  # rates, rows of the tail, what blocks
    await page.screenshot(path=target, full_page=look == "phone", animations="disabled")
    await page.close()


async def main() -> None:
    """Run the sample cluster and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DOCS)
    parser.add_argument("--only", choices=SCREENS, action="append")
    parser.add_argument("--all", action="store_true", help="every screen, in light, dark and at 400 pixels")
    parser.add_argument("--serve", type=int, metavar="PORT", help="only run the sample cluster and its console")
    parser.add_argument("--language", default="en-GB")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    async with sample_shop(given.serve or 0) as (url, _):
        if given.serve:
            print(url, flush=True)
            await asyncio.Event().wait()
        await asyncio.sleep(8)
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            wanted = [(name, look) for name in given.only or SCREENS for look in LOOKS] if given.all else IN_DOCS
            for name, look in wanted:
                await take(browser, url, name, look, given.out / f"console-{name}-{look}.png", given.language)
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
