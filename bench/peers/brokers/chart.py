"""A bar chart as SVG, drawn with nothing but text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple
from xml.sax.saxutils import escape

_WIDTH, _LABEL, _BAR, _GAP, _TOP = 760, 110, 14, 10, 58
_COLOURS = ("#c2410c", "#f2b48c", "#4b6b8a")


class Bar(NamedTuple):
    """One bar: its group, whose it is, and how long."""

    group: str
    series: str
    value: float


def chart(title: str, bars: Sequence[Bar], base: float = 1.0) -> str:
    """Return a chart of grouped horizontal bars with a line at `base`."""
    series = list(dict.fromkeys(bar.series for bar in bars))
    scale = (_WIDTH - _LABEL - 60) / max(base, *(bar.value for bar in bars))
    parts, y = [], _TOP
    for group, members in groupby(bars, key=lambda bar: bar.group):
        parts.append(f'<text x="{_LABEL - 8}" y="{y + _BAR - 2}" text-anchor="end">{escape(group)}</text>')
        for bar in members:
            width = bar.value * scale
            colour = _COLOURS[series.index(bar.series) % len(_COLOURS)]
            parts.append(f'<rect x="{_LABEL}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>')
            parts.append(f'<text x="{_LABEL + width + 5:.1f}" y="{y + _BAR - 3}">{bar.value:.2f}</text>')
            y += _BAR + 2
        y += _GAP
    at = _LABEL + base * scale
    line = f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP - 6}" y2="{y}" stroke="#444" stroke-dasharray="3 3"/>'
    legend = "".join(
        f'<rect x="{_LABEL + 170 * i}" y="30" width="12" height="12" fill="{_COLOURS[i % len(_COLOURS)]}"/>'
        f'<text x="{_LABEL + 170 * i + 18}" y="41">{escape(name)}</text>'
        for i, name in enumerate(series)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 4}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="#fff"/><text x="{_LABEL}" y="18" font-size="14">'
        f"{escape(title)}</text>{legend}{''.join(parts)}{line}</svg>\n"
    )
