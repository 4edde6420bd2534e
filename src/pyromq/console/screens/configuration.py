"""Configuration: the settings of brokers and name servers that differ from the default; schemas of bodies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct
from starlette.responses import Response

from pyromq.admin.maintenance.settings import ServerSettings, Setting
from pyromq.broker.config.keys import BROKER_TABLE
from pyromq.console.bodies.schemas import BodySchema
from pyromq.console.login.roles import UserRole
from pyromq.console.web.failures import FormError
from pyromq.console.web.route import Route
from pyromq.console.web.visit import Visit
from pyromq.namesrv.keys import NAMESRV_TABLE
from pyromq.settings.key_table import KeyTable

_SECRET: Final = re.compile(r"secret|password|passwd|token", re.IGNORECASE)
_HIDDEN: Final = "******"


class SettingRow(Struct, frozen=True, kw_only=True):
    """One key, with its value at the servers that have it."""

    key: str
    values: tuple[tuple[str, str], ...]
    """Where, and the value there; without a place if all servers have the same."""
    default: str | None
    differs: bool
    changeable: bool | None
    help: str

    @property
    def value(self) -> str:
        """The value at the first server, for the form that changes it."""
        return self.values[0][1]


class ServerKind(Struct, frozen=True, kw_only=True):
    """All brokers, or all name servers."""

    name: str
    rows: tuple[SettingRow, ...]
    differing: int
    total: int
    servers: tuple[str, ...]
    silent: tuple[tuple[str, str], ...]


async def configuration(visit: Visit) -> Response:
    """Show the settings."""
    shows_all = visit.query.get("show") == "all"
    words = visit.query.get("q", "").strip().lower()
    kinds = [
        server_kind("brokers", await visit.admin.settings.of_brokers(), BROKER_TABLE),
        server_kind("name servers", await visit.admin.settings.of_name_servers(), NAMESRV_TABLE),
    ]
    shown = [(kind, _shown(kind.rows, shows_all=shows_all or bool(words), words=words)) for kind in kinds]
    return await visit.render(
        "configuration.html", shown=shown, shows_all=shows_all, q=words, schemas=visit.parts.schemas.all
    )


def _shown(rows: Sequence[SettingRow], *, shows_all: bool, words: str) -> list[SettingRow]:
    return [row for row in rows if (shows_all or row.differs) and words in f"{row.key} {row.help}".lower()]


def server_kind(name: str, servers: Sequence[ServerSettings], table: KeyTable) -> ServerKind:
    """Put the settings of servers of one kind together, key by key."""
    answering = [server for server in servers if not server.silence]
    keys = sorted({key for server in answering for key in server.settings})
    rows = tuple(_row(key, answering, table) for key in keys)
    return ServerKind(
        name=name,
        rows=rows,
        differing=sum(row.differs for row in rows),
        total=len(rows),
        servers=tuple(server.title for server in servers),
        silent=tuple((server.title, server.silence) for server in servers if server.silence),
    )


def _row(key: str, servers: Sequence[ServerSettings], table: KeyTable) -> SettingRow:
    found: dict[str, Setting] = {server.title: server.settings[key] for server in servers if key in server.settings}
    values = {title: _HIDDEN if _SECRET.search(key) and one.value else one.value for title, one in found.items()}
    same = len(set(values.values())) == 1
    first = next(iter(found.values()))
    return SettingRow(
        key=key,
        values=(("", next(iter(values.values()))),) if same else tuple(values.items()),
        default=first.default,
        differs=any(one.default is not None and one.differs for one in found.values()),
        changeable=first.changeable,
        help=table.keys[key].help.replace("`", "") if key in table.keys else "",
    )


async def change(visit: Visit) -> Response:
    """Change a setting of all servers of a kind."""
    form = visit.form
    key, value = form.required("key", visit.t("Key")), form.text("value")
    name_servers = form.text("kind") == "name servers"
    plan = await visit.admin.settings.set({key: value}, name_servers=name_servers)
    before = {one.server.title: one.before for one in plan.changes}
    visit.describe("change configuration", key, before=before, after=value)
    kept = ", ".join(plan.silent_slaves)
    notice = visit.t("{key} is {value} now.", key=key, value=value)
    if kept:
        notice += " " + visit.t("These slaves did not answer and keep theirs: {slaves}.", slaves=kept)
    return visit.redirect("/configuration", notice, "warn" if kept else "good")


async def add_schema(visit: Visit) -> Response:
    """Upload a schema for the bodies of some topics."""
    form = visit.form
    data = form.file("schema")
    if data is None:
        raise FormError(visit.t("Choose a file: a descriptor set of protoc, or an Avro schema"))
    format: Literal["avro", "protobuf"] = "avro" if data.lstrip()[:1] in (b"{", b"[", b'"') else "protobuf"
    topic = form.required("topic", visit.t("Topic"))
    schema = BodySchema(topic=topic, format=format, data=data, message=form.text("message"))
    visit.parts.schemas.put(schema)
    visit.describe("add schema", topic, after={"format": format, "message": schema.message})
    return visit.redirect(
        "/configuration", visit.t("Bodies of {topic} are read as {format} now.", topic=topic, format=format)
    )


async def remove_schema(visit: Visit) -> Response:
    """Remove a schema."""
    topic = visit.form.required("topic", visit.t("Topic"))
    visit.parts.schemas.remove(topic)
    visit.describe("remove schema", topic)
    return visit.redirect("/configuration", visit.t("The schema of {topic} is gone.", topic=topic))


ROUTES: Final = (
    Route("GET", "/configuration", UserRole.VIEWER_WITHOUT_BODIES, configuration),
    Route("POST", "/configuration", UserRole.ADMIN, change),
    Route("POST", "/configuration/schemas", UserRole.ADMIN, add_schema),
    Route("POST", "/configuration/schemas/remove", UserRole.ADMIN, remove_schema),
)
