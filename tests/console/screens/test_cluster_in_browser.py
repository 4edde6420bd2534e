"""Clients, pipelines, configuration, access and the audit log in a real browser, on a real broker."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from pyromq import Message, blocking
from pyromq.testing import LocalCluster
from tests.console.site import PASSWORD, BlockingSite, users_file


def test_connected_clients_are_listed_and_found(
    page: Page, console: BlockingSite, console_cluster: LocalCluster
) -> None:
    with blocking.Producer("browse-clients", console_cluster.namesrv) as producer:
        producer.send(Message(topic="browse-clients", body=b"one"))
        page.goto(f"{console.url}/clients?q=browse-clients")
        row = page.locator("#list tbody tr")
        expect(row).to_have_count(1)
        expect(row).to_contain_text("PYTHON")
        expect(row).to_contain_text("127.0.0.1:")


def test_a_pipeline_that_cannot_start_says_why_in_its_dialog(page: Page, console: BlockingSite) -> None:
    page.goto(f"{console.url}/pipelines")
    page.locator(".offer", has_text="find").get_by_role("button").click()
    dialog = page.locator("dialog#start-find")
    dialog.get_by_label("topics").fill("browse-clients")
    dialog.get_by_label("since").fill("yesterday")
    dialog.get_by_role("button", name="Start").click()
    expect(dialog.get_by_role("alert")).to_contain_text("--since must be a time")
    assert console.console.parts.pipelines().list() == []


def test_a_setting_is_changed_at_the_broker_and_noted_in_the_audit_log(page: Page, console: BlockingSite) -> None:
    page.goto(f"{console.url}/configuration?show=all&q=fileReservedTime")
    page.locator("tr", has_text="fileReservedTime").get_by_role("button", name="Change").click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_label("Value").fill("many")
    dialog.get_by_role("button", name="Change").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label("Value").fill("71")
    dialog.get_by_role("button", name="Change").click()
    expect(page.locator(".toast.good")).to_contain_text("fileReservedTime is 71 now")
    (server,) = console.ask(console.admin.settings.of_brokers())
    assert server.settings["fileReservedTime"].value == "71"
    expect(page.locator("tr", has_text="fileReservedTime").locator("b")).to_have_text("71")

    page.goto(f"{console.url}/audit?source=console&q=fileReservedTime")
    row = page.locator("#list tbody tr").first
    expect(row).to_contain_text("change configuration")
    row.locator("summary").click()
    expect(row.locator(".gone")).to_contain_text("72")
    expect(row.locator(".new")).to_contain_text("71")
    page.goto(f"{console.url}/audit?source=servers&q=update broker config")
    expect(page.locator("#list tbody tr").first).to_contain_text("done")


def test_users_and_masked_fields_take_effect_at_once(
    browser: Browser, console_cluster: LocalCluster, tmp_path: Path
) -> None:
    users_file(tmp_path / "console.yml")
    with blocking.Producer("browse-masks", console_cluster.namesrv) as producer:
        producer.send(Message(topic="browse-masks", body=json.dumps({"card": "4111", "id": 5}).encode()))
    with BlockingSite(console_cluster.namesrv, tmp_path, login=True) as site:
        admin, viewer = browser.new_context(), browser.new_context()
        page, other = admin.new_page(), viewer.new_page()
        for opened, name in ((page, "admin"), (other, "viewer")):
            opened.goto(f"{site.url}/login")
            opened.locator("input[name=name]").fill(name)
            opened.locator("input[name=password]").fill(PASSWORD)
            opened.locator("form button").click()
            expect(opened.locator("h1")).to_have_text("Overview")
        other.goto(f"{site.url}/messages?topic=browse-masks")
        expect(other.locator("#found-messages")).to_contain_text("4111")

        page.goto(f"{site.url}/access")
        page.get_by_role("button", name="Mask fields").click()
        dialog = page.locator("dialog#add-rule")
        dialog.get_by_label("Topics").fill("browse-*")
        dialog.get_by_label("Fields").fill("card")
        dialog.get_by_role("button", name="Mask", exact=True).click()
        expect(page.locator("#masking")).to_contain_text("browse-*")
        other.reload()
        expect(other.locator("#found-messages")).to_contain_text("•••")
        expect(other.locator("#found-messages")).not_to_contain_text("4111")

        page.locator("#users tr", has_text="operator").get_by_role("button", name="Remove").click()
        page.locator("dialog[open]").get_by_role("button", name="Remove").click()
        expect(page.locator(".toast.good")).to_contain_text("operator cannot sign in any more")
        assert "operator:" not in (tmp_path / "console.yml").read_text()
        page.locator("#users tr", has_text="you").get_by_role("button", name="Remove").click()
        page.locator("dialog[open]").get_by_role("button", name="Remove").click()
        expect(page.locator("dialog[open]").get_by_role("alert")).to_contain_text("your own rights")
        other.goto(f"{site.url}/access")
        expect(other.locator("body")).to_contain_text("it needs admin")
        admin.close()
        viewer.close()
