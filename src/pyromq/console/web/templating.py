"""Templates: Jinja2 with autoescape, and what every template can use."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from pyromq.console.login.roles import UserRole
from pyromq.console.web import urls, wording

PACKAGE: Final = "pyromq.console"


@cache
def environment() -> Environment:
    """Return the environment of all templates."""
    found = Environment(
        loader=PackageLoader(PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters |= wording.FILTERS
    found.filters["compact_json"] = compact_json
    found.filters["regex_quote"] = regex_quote
    found.globals |= {
        "topic_url": urls.topic_url,
        "group_url": urls.group_url,
        "message_url": urls.message_url,
        "static": static_url,
        "Role": UserRole,
        "disabled": disabled,
        "points": spark_points,
        "chart_series": chart_series,
        "chart_times": chart_times,
        "shown": shown_values,
    }
    return found


def render(template: str, context: dict[str, Any]) -> str:
    """Return a page."""
    return environment().get_template(template).render(context)


def compact_json(value: Any) -> str:
    """Return a value as JSON for an attribute, which autoescape then quotes."""
    return msgspec.json.encode(value).decode()


def disabled(reason: str) -> Markup:
    """Return the attributes of a control that cannot be used, with the reason; nothing if it can."""
    if not reason:
        return Markup()
    return Markup('disabled title="{}"').format(reason)


def spark_points(values: list[float], width: int = 96, height: int = 22) -> str:
    """Return the points of a small line chart."""
    top = max(values, default=0.0) or 1.0
    step = width / max(len(values) - 1, 1)
    return " ".join(
        f"{index * step:.1f},{height - 1 - value / top * (height - 3):.1f}" for index, value in enumerate(values)
    )


def chart_times(series: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the times of a chart; empty if none of its series is known."""
    return next((one["points"].times for one in series if one["points"].times), [])


def chart_series(series: Sequence[Mapping[str, Any]], times: Sequence[int]) -> list[dict[str, Any]]:
    """Return the series of a chart for console.js, all at the same times."""
    return [
        {
            "label": one["label"],
            "tone": one["tone"],
            "values": one["points"].values if one["points"].times else [0] * len(times),
        }
        for one in series
    ]


def shown_values(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the values in a sentence as people write them, by their names: times, counts and the rest."""
    ways = {"time": wording.duration, "count": wording.number}
    return {name: ways.get(name, str)(value) for name, value in values.items()}


def regex_quote(text: str) -> str:
    """Return a text as a pattern of HTML that only it matches."""
    return re.sub(r"([\\^$.*+?()\[\]{}|/])", r"\\\1", text)


@cache
def static_url(name: str) -> str:
    """Return the address of a file of the package; it changes with the file, so that browsers may keep it."""
    data = resources.files(PACKAGE).joinpath("static", name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(data).hexdigest()[:12]}"


def fragment(text: str, tone: str = "bad") -> str:
    """Return a message that app.js shows beside a form."""
    return f'<p class="toast {escape(tone)}" role="alert">{escape(text)}</p>'
