"""Loading an App by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.app.running.loading import load_app
from pyromq.app.running.serving import serve
from pyromq.errors import ConfigError

FILES = {
    "loaded_shop": "from pyromq import App\napp = App('shop')\nother = App('other')",
    "loaded_broken": "def divide():\n    return 1 / 0\ndivide()",
    "loaded_wrong": "from pyromq import App\napp = App('shop')\n@app.on('orders')\ndef f(order): ...",
    "loaded_typo": "def f(:",
    "loaded_needs": "import no_such_package",
    "loaded_nothing": "app = 5",
}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_module_in_this_directory_has_the_app() -> None:
    assert load_app("loaded_shop:other").name == "other"
    assert load_app("loaded_shop").name == "shop"


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("", "does not name an App: expected module:app, such as shop:app"),
        ("loaded_shop.py", "does not name an App"),
        ("no_such_shop:app", "there is no module 'no_such_shop' in /"),
        ("loaded_shop:apq", "loaded_shop:apq is not an App; did you mean loaded_shop:app?"),
        ("loaded_nothing:app", "loaded_nothing has no App: write `app = App(...)` in it"),
        ("loaded_broken:app", "loaded_broken.py:2)"),
        ("loaded_wrong:app", "f: say what 'order' is"),
        ("loaded_wrong:app", "loaded_wrong.py:3)"),
        ("loaded_typo:app", "SyntaxError"),
        ("loaded_needs:app", "loaded_needs cannot be imported: No module named 'no_such_package'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(target: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_app(target)
    assert text in str(caught.value)


async def test_an_app_without_handlers_has_nothing_to_do() -> None:
    with pytest.raises(ConfigError, match="the App 'shop' has no handler"):
        await serve(load_app("loaded_shop"), print)
