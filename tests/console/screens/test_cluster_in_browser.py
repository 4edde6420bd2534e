"""Clients, pipelines, configuration, access and the audit log in a real browser, on a real broker."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect

from pyromq import Message, blocking
from pyromq.errors import AccessDenied
from pyromq.pipelines.jobs.job_files import JobEnd, JobOrder
from pyromq.pipelines.outcome import Outcome
from pyromq.pipelines.pages import page as report_page
from pyromq.protocol.acl import Credentials
from pyromq.testing import LocalCluster
from tests.console.bodies.test_schemas import descriptor, order_body
from tests.console.login.test_accounts import ADMIN, acl_file
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


def test_the_report_of_a_job_is_shown_where_its_scripts_do_not_run_and_removed(
    page: Page, console_cluster: LocalCluster, tmp_path: Path
) -> None:
    with BlockingSite(console_cluster.namesrv, tmp_path) as site:
        files = site.console.parts.pipelines().files("20260101-120000-abcdef")
        files.results.mkdir(parents=True)
        files.write("job", JobOrder(id=files.directory.name, pipeline="report", options={}, user="ada", started=1.0))
        files.write("outcome", JobEnd(ended=9.0, outcome=Outcome(read=4321, written=0)))
        hostile = "<script>top.document.title = 'taken'; document.body.textContent = 'taken'</script>"
        parts = [report_page.tiles([report_page.Tile("Messages", "4,321")]), hostile]
        report = report_page.document("Topics of the shop", "one day", parts, "made by Spark")
        (files.results / "report.html").write_text(report)
        page.goto(f"{site.url}/pipelines")
        page.locator("#jobs tr", has_text="report").get_by_role("link").click()
        expect(page.locator("#tiles")).to_contain_text("4,321")
        inside = page.frame_locator("iframe.report")
        expect(inside.locator("h1")).to_have_text("Topics of the shop")
        expect(inside.locator(".tiles b")).to_have_text("4,321")
        assert (
            inside.locator("main").evaluate("(part) => getComputedStyle(part).maxWidth") != "none"
        )  # it has its style
        assert "taken" not in page.title()
        page.get_by_role("button", name="Remove").click()
        page.locator("dialog#remove").get_by_role("button", name="Remove").click()
        expect(page.locator(".toast.good")).to_contain_text("The job and its files are gone")
        assert not files.directory.exists()


def test_bodies_are_read_by_an_uploaded_descriptor(
    page: Page, console: BlockingSite, console_cluster: LocalCluster
) -> None:
    with blocking.Producer("browse-schemas", console_cluster.namesrv) as producer:
        sent = producer.send(Message(topic="browse-proto", body=order_body()))
    page.goto(f"{console.url}/configuration")
    page.get_by_role("button", name="Add a schema").click()
    dialog = page.locator("dialog#add-schema")
    dialog.get_by_label("Topics").fill("browse-proto")
    dialog.locator("input[type=file]").set_input_files({"name": "x", "mimeType": "text/plain", "buffer": b"no schema"})
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("descriptor set")
    upload = FilePayload(name="shop.pb", mimeType="application/octet-stream", buffer=descriptor())
    dialog.locator("input[type=file]").set_input_files(upload)
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("shop.Order, shop.Refund")  # it asks which
    dialog.get_by_label("Protobuf message type").fill("shop.Order")
    dialog.get_by_role("button", name="Add").click()
    expect(page.locator(".toast.good")).to_contain_text("read as protobuf now")
    page.goto(f"{console.url}/messages/browse-proto/{sent.message_id}")
    expect(page.locator("main")).to_contain_text("card_number")

    page.goto(f"{console.url}/configuration")
    page.locator("#schemas tr", has_text="browse-proto").get_by_role("button", name="Remove").click()
    page.locator("dialog[open]").get_by_role("button", name="Remove").click()
    expect(page.locator(".toast.good")).to_contain_text("is gone")
    assert console.console.parts.schemas.all == ()


def test_a_changed_right_of_an_account_counts_at_the_broker_at_once(page: Page, tmp_path: Path) -> None:
    acl_file(tmp_path)
    shop = Credentials("shop-account", "shop-secret-shop-secret")
    with (
        LocalCluster(data=tmp_path, settings={"aclEnable": "true"}) as cluster,
        BlockingSite(cluster.namesrv, credentials=ADMIN) as console,
        blocking.Producer("shop-senders", cluster.namesrv, credentials=shop) as producer,
    ):
        console.ask(console.admin.topics.create("salaries", read_queues=1, write_queues=1))
        with pytest.raises(AccessDenied):
            producer.send(Message(topic="salaries", body=b"x"))
        page.goto(f"{console.url}/access")
        page.locator("tr", has_text="shop-account").get_by_role("button", name="Change").click()
        dialog = page.locator("dialog[open]")
        rights = dialog.locator("textarea[name=topics]")
        expect(rights).to_have_value(re.compile(r"orders=PUB\|SUB"))
        rights.fill("orders=PUB|SUB\nsalaries=SING")
        dialog.get_by_role("button", name="Change").click()
        expect(dialog.get_by_role("alert")).to_contain_text("orders=PUB|SUB: salaries=SING")
        rights.fill("orders=PUB|SUB\nsalaries=PUB")
        dialog.get_by_role("button", name="Change").click()
        expect(page.locator(".toast.good")).to_contain_text("The rights of shop-account are changed")
        expect(page.locator("tr", has_text="shop-account")).to_contain_text("salaries=PUB")
        producer.send(Message(topic="salaries", body=b"x"))
        page.goto(f"{console.url}/audit?source=console&q=shop-account")
        expect(page.locator("#list tbody tr", has_text="change account").first).to_contain_text("done")


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
