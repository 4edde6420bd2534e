"""Every route × every role, allowed or refused as the table of routes says, also when the request is made by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyromq.console.login.roles import UserRole
from pyromq.console.route_table import ROUTES
from pyromq.console.web.route import Route
from pyromq.testing import LocalCluster
from tests.console.site import ROLES, ConsoleSite, Visitor, users_file

GUARDED = [route for route in ROUTES if route.role is not UserRole.PUBLIC]
PUBLIC = {("GET", "/login"), ("POST", "/login"), ("GET", "/language")}


def path_of(route: Route) -> str:
    return re.sub(r"\{[^}]+\}", "nothing-of-this-name", route.path)


async def status(visitor: Visitor, route: Route) -> int:
    """Return the status of a request; what is refused is refused before anything is looked up."""
    if route.method == "GET":
        return (await visitor.http.get(path_of(route), headers={"hx-request": "true"})).status_code
    return (await visitor.http.post(path_of(route), data={}, headers={"hx-request": "true"})).status_code


def test_only_the_login_needs_no_role() -> None:
    assert {(route.method, route.path) for route in ROUTES if route.role is UserRole.PUBLIC} == PUBLIC
    assert {(route.method, route.path) for route in ROUTES if route.own_csrf} == {("POST", "/login")}


def test_no_path_is_there_twice_and_what_changes_is_a_post() -> None:
    keys = [(route.method, route.path) for route in ROUTES]
    assert len(keys) == len(set(keys))
    assert {route.method for route in ROUTES} == {"GET", "POST"}


async def test_without_a_session_every_page_is_refused(console_cluster: LocalCluster, tmp_path: Path) -> None:
    users_file(tmp_path / "console.yml")
    async with ConsoleSite.open(console_cluster.namesrv, tmp_path, login=True) as site, site.visitor() as visitor:
        for route in GUARDED:
            assert await status(visitor, route) == 401, route
        for path in ("/live?page=/", "/live?page=/topics"):
            assert (await visitor.get(path)).status_code in (401, 404)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.word)
async def test_a_role_may_what_the_table_says(role: UserRole, console_cluster: LocalCluster, tmp_path: Path) -> None:
    users_file(tmp_path / "console.yml")
    async with ConsoleSite.open(console_cluster.namesrv, tmp_path, login=True) as site, site.visitor(role) as visitor:
        for route in GUARDED:
            if route.path == "/logout":
                continue
            # Allowed changes are refused for their missing token, a check that comes after the role's.
            found = await visitor.http.request(
                route.method,
                path_of(route),
                headers={"hx-request": "true"},
                data={} if route.method == "POST" else None,
            )
            refused = found.status_code == 403 and f"Your role {role.word} may not do this" in found.text
            assert refused == (role < route.role), route
            if route.method == "POST" and not refused:
                assert "the form has expired" in found.text.lower(), route
