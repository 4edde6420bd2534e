"""What keeps others out: login, throttle, cookies, CSRF, host and origin, headers, hostile names."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.console.login.console_file import TrustedHeader
from pyromq.console.login.roles import UserRole
from pyromq.console.login.sessions import COOKIE
from pyromq.testing import LocalCluster
from tests.console.site import ConsoleSite, users_file


async def test_the_session_cookie_is_for_this_site_and_no_script(console_cluster: LocalCluster, tmp_path: Path) -> None:
    users_file(tmp_path / "console.yml")
    async with ConsoleSite.open(console_cluster.namesrv, tmp_path, login=True) as site, site.visitor() as visitor:
        refused = await visitor.get("/topics?q=a")
        assert refused.headers["location"] == "/login?next=%2Ftopics%3Fq%3Da"
        answer = await visitor.sign_in("operator")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await visitor.get("/topics")).status_code == 200
        token = visitor.http.cookies[COOKIE]
        await visitor.post("/logout")
        visitor.http.cookies.set(COOKIE, token)
        assert (await visitor.get("/topics")).status_code == 303  # the session is over, whoever kept the cookie


async def test_a_login_leads_to_pages_of_ours_only(console_cluster: LocalCluster, tmp_path: Path) -> None:
    users_file(tmp_path / "console.yml")
    async with ConsoleSite.open(console_cluster.namesrv, tmp_path, login=True) as site:
        for elsewhere in ("https://evil.example", "//evil.example", "/\\evil.example", "topics"):
            async with site.visitor() as visitor:
                fields = {"name": "viewer", "password": "correct horse battery", "next": elsewhere}
                answer = await visitor.http.post("/login", data=fields)
                assert answer.headers["location"] == "/"


async def test_wrong_passwords_are_slowed_down(console_cluster: LocalCluster, tmp_path: Path) -> None:
    users_file(tmp_path / "console.yml")
    async with ConsoleSite.open(console_cluster.namesrv, tmp_path, login=True) as site, site.visitor() as visitor:
        codes = [(await visitor.sign_in("admin", "wrong")).status_code for _ in range(6)]
        assert codes == [401] * 5 + [429]
        slowed = await visitor.sign_in("admin")
        assert slowed.status_code == 429
        assert int(slowed.headers["retry-after"]) >= 1


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}])
async def test_other_sites_change_nothing(headers: dict[str, str], console_cluster: LocalCluster) -> None:
    async with ConsoleSite.open(console_cluster.namesrv) as site, site.visitor() as visitor:
        made = {"topic": "security-forged", "queues": "1"}
        assert (await visitor.post("/topics", made, headers=headers)).status_code == 403
        await visitor.get("/")
        assert (await visitor.http.post("/topics", data=made)).status_code == 403  # no token
        assert (await visitor.http.post("/topics", data={**made, "csrf": "x"})).status_code == 403
        assert "security-forged" not in await site.admin.topics.names()


async def test_a_name_that_is_not_ours_is_refused_on_loopback(console_cluster: LocalCluster) -> None:
    async with ConsoleSite.open(console_cluster.namesrv) as site, site.visitor() as visitor:
        for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example"):
            assert (await visitor.get("/topics", headers={"host": host})).status_code == 403
        assert (await visitor.get("/topics", headers={"host": "localhost:1"})).status_code == 200


async def test_every_answer_has_strict_headers(console_cluster: LocalCluster) -> None:
    async with ConsoleSite.open(console_cluster.namesrv) as site, site.visitor() as visitor:
        for path in ("/", "/login", "/nowhere", "/static/console.css", "/topics/none", "/live?page=/nowhere"):
            headers = (await visitor.get(path)).headers
            policy = headers["content-security-policy"]
            assert "unsafe" not in policy, path
            assert "default-src 'none'" in policy, path
            assert headers["x-content-type-options"] == "nosniff", path
            assert headers["x-frame-options"] == "DENY", path


async def test_no_page_has_script_or_style_inside(console_cluster: LocalCluster) -> None:
    async with ConsoleSite.open(console_cluster.namesrv) as site, site.visitor() as visitor:
        for path in ("/", "/topics", "/topics/TBW102", "/topics/TBW102/tail", "/groups", "/groups/TOOLS_CONSUMER"):
            text = (await visitor.get(path)).text
            assert "<style" not in text, path
            assert " style=" not in text, path
            assert " onclick=" not in text, path
            assert all("src=" in part[:80] for part in text.split("<script")[1:]), path


async def test_hostile_text_is_shown_and_never_run(console_cluster: LocalCluster) -> None:
    async with ConsoleSite.open(console_cluster.namesrv) as site, site.visitor() as visitor:
        for path in ("/topics?q=%3Cscript%3Ealert(1)%3C/script%3E", "/topics/%3Cscript%3Ealert(1)"):
            answer = await visitor.get(path)
            assert "<script>alert" not in answer.text
            assert "&lt;script&gt;" in answer.text


async def test_only_a_trusted_proxy_names_users(console_cluster: LocalCluster, tmp_path: Path) -> None:
    trusted = TrustedHeader(name="X-User", addresses=("127.0.0.1",), role="viewer", role_header="X-Role")
    users_file(tmp_path / "console.yml", trusted_header=trusted)
    async with ConsoleSite.open(console_cluster.namesrv, tmp_path, login=True) as site, site.visitor() as visitor:
        assert (await visitor.get("/topics", headers={"X-User": "ada"})).status_code == 200
        assert "ada" in (await visitor.get("/", headers={"X-User": "ada", "X-Role": "admin"})).text
        assert (await visitor.get("/topics")).status_code == 303  # its cookie alone is no proof
        assert (await visitor.get("/topics", headers={"X-User": "ada", "X-Role": "king"})).status_code == 303
    trusted = TrustedHeader(name="X-User", addresses=("10.1.2.3",))
    users_file(tmp_path / "console.yml", trusted_header=trusted)
    async with ConsoleSite.open(console_cluster.namesrv, tmp_path, login=True) as site, site.visitor() as visitor:
        assert (await visitor.get("/topics", headers={"X-User": "ada"})).status_code == 303


async def test_every_change_is_in_the_audit_log(console_cluster: LocalCluster, tmp_path: Path) -> None:
    users_file(tmp_path / "console.yml")
    async with ConsoleSite.open(console_cluster.namesrv, tmp_path, login=True) as site:
        async with site.visitor(UserRole.OPERATOR) as operator, site.visitor(UserRole.VIEWER) as viewer:
            await operator.post("/topics", {"topic": "audited", "queues": "1", "secret_note": "hush"})
            await operator.post("/topics", {"topic": "audited", "queues": "1"})
            await viewer.post("/topics", {"topic": "never", "queues": "1"})
        entries = site.console.parts.audit.entries()
        assert [(one.user, one.result) for one in entries] == [
            ("viewer", "refused"),
            ("operator", "failed"),
            ("operator", "done"),
        ]
        assert entries[2].action == "create topic"
        assert entries[2].target == "audited"
        assert "hush" not in (tmp_path / "audit.jsonl").read_text()
    async with ConsoleSite.open(console_cluster.namesrv, tmp_path, login=True) as site:
        assert len(site.console.parts.audit.entries()) == 3  # a restart keeps it
