"""`pyromq docs`."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.cli.conftest import pyromq_here

PROGRAM = '''
"""Orders <of> the shop."""
from msgspec import Struct
from pyromq import App

app = App("shop", "127.0.0.1:9876")

class Line(Struct):
    name: str = "<b>"

class Order(Struct):
    id: str
    lines: list[Line]

@app.on("orders", group="billing", sql="cents < 10 AND cents > 1")
@app.publishes("paid")
async def bill(order: Order) -> Order:
    """Charge it."""
    return order
'''


class Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "documented_shop.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_the_document_is_printed() -> None:
    done = pyromq_here("docs", "documented_shop:app")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["info"]["description"] == "Orders <of> the shop."


def test_the_page_shows_it(tmp_path: Path) -> None:
    done = pyromq_here("docs", "documented_shop:app", "--out", "site/shop")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "site/shop/asyncapi.json").read_text())["asyncapi"] == "3.0.0"
    page = (tmp_path / "site/shop/index.html").read_text()
    parser = Texts()
    parser.feed(page)
    for text in ("shop 0.1.0", "Orders <of> the shop.", "bill", "Charge it.", "list of Line", 'default "<b>"'):
        assert text in parser.texts, text
    assert any("cents < 10 AND cents > 1" in text for text in parser.texts)
    assert "http://" not in page
    assert "https://" not in page, "it needs no other file"


def test_a_wrong_name_is_one_line() -> None:
    done = pyromq_here("docs", "documented_shop:apq")
    assert (done.returncode, done.stdout) == (1, "")
    assert "did you mean documented_shop:app?" in done.stderr
