"""The pages: lines that fit a screen, links and file names that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docsite import configuration
from pyromq.broker.config.broker_config import broker_config, settings_of
from pyromq.broker.config.keys import BROKER_TABLE
from pyromq.broker.config.limits import LIMIT_KEYS
from pyromq.namesrv.keys import NAMESRV_TABLE

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
LINE = 120
TABLE_LINE = 160
FOLDERS = "src|tests|interop|bench|examples|docs|pyromq|" + "|".join(
    path.name for path in (ROOT / "src" / "pyromq").iterdir() if path.is_dir()
)
_FILE = re.compile(rf"(?<![\w/.])((?:{FOLDERS})/[\w/]+\.(?:py|md|xml|java|toml))\b")
_LINK = re.compile(r"\]\(([^)#:]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_a_line_fits_a_screen(page: Path) -> None:
    lines = page.read_text().splitlines()
    assert [line for line in lines if line.startswith(("<<<<<<<", ">>>>>>>"))] == []
    assert [line for line in lines if len(line) > (TABLE_LINE if line.startswith("|") else LINE)] == []


def test_the_page_of_settings_has_every_key_with_its_default() -> None:
    _, broker, namesrv = (ROOT / "docs" / "configuration.md").read_text().split("## Keys of a ")
    written = dict(re.findall(r"^\| `([\w.]+)`(?: \*)? \| `?([^`|]*?)`? \|", broker, re.MULTILINE))
    known = {key: value for key, value in settings_of(broker_config({})).items() if key in BROKER_TABLE.keys}
    assert written | {"messageDelayLevel": known["messageDelayLevel"]} == {k: v or "–" for k, v in known.items()}
    assert re.findall(r"^\| `([\w.]+)` ", namesrv, re.MULTILINE) == list(NAMESRV_TABLE.keys)


def test_the_tables_of_settings_are_those_of_the_code() -> None:
    """Where this fails, run `python -m docsite.configuration`."""
    page = configuration.PAGE.read_text()
    assert configuration.written(page) == page
    assert "**Others**" not in page  # a new key is put into one of the tables
    keys = {**BROKER_TABLE.keys, **NAMESRV_TABLE.keys}
    assert [name for name, key in keys.items() if not re.match(r"[a-z0-9`]", key.help)] == []


def test_the_page_of_security_has_a_line_for_every_limit() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    limits = [key for key in (*LIMIT_KEYS, *NAMESRV_TABLE.keys) if key.startswith("pyromqMax") or "Timeout" in key]
    rows = "\n".join(line for line in page.splitlines() if line.startswith("| "))
    assert [key for key in limits if f"`{key}`" not in rows] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_a_page_names_files_that_exist(page: Path) -> None:
    text = page.read_text()
    homes = (ROOT, ROOT / "src", ROOT / "src" / "pyromq")
    assert [name for name in _FILE.findall(text) if not any((home / name).exists() for home in homes)] == []
    assert [link for link in _LINK.findall(text) if not (page.parent / link).exists()] == []


def test_the_page_for_migrations_names_every_feature_that_is_refused() -> None:
    page = (ROOT / "docs" / "migrate.md").read_text()
    refused = {key.replace(key[4:], "…") if key.startswith("tls.") else key for key in BROKER_TABLE.fixed}
    assert sorted(key for key in refused if f"`{key}" not in page) == []


@pytest.mark.parametrize("role", ["ASYNC_MASTER", "SYNC_MASTER", "SLAVE"])
def test_the_files_of_apaches_distribution_are_accepted(role: str) -> None:
    """Its directories conf/2m-noslave, 2m-2s-async and 2m-2s-sync have just these keys."""
    values = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": "1" if role == "SLAVE" else "0",
        "deleteWhen": "04",
        "fileReservedTime": "48",
        "brokerRole": role,
        "flushDiskType": "ASYNC_FLUSH",
    }
    assert broker_config(values).without_effect == ()
