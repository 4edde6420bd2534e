"""The chart of `pyromq bench --chart`: the time of an answer by percentile, as SVG, drawn with nothing but text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 760, 340, 70, 64, 40
_LINES = 4


def latency_chart(title: str, subtitle: str, percentiles: Mapping[str, float]) -> str:
    """Return a chart of milliseconds by percentile, such as `{"50": 1.2, "99.9": 8.0}`.

    Each step to the right leaves out a tenth of the answers that the step before left out, so that the slowest ones,
    which people notice, have room.
    """
    points = [(_place(float(name)), ms) for name, ms in percentiles.items() if float(name) < 100]
    most_x, top = max(x for x, _ in points), _round_up(max(ms for _, ms in points))
    scale_x, scale_y = (_WIDTH - _LEFT - 40) / most_x, (_HEIGHT - _TOP - _BOTTOM) / top

    def at(x: float, ms: float) -> str:
        return f"{_LEFT + x * scale_x:.1f},{_HEIGHT - _BOTTOM - ms * scale_y:.1f}"

    parts = [
        f'<text x="{_LEFT}" y="24" font-size="15">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="44" fill="#555">{escape(subtitle)}</text>',
    ]
    for ms in (top * step / _LINES for step in range(_LINES + 1)):
        x, y = at(0, ms).split(",")
        parts.append(f'<line x1="{x}" x2="{_WIDTH - 40}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{float(y) + 4:.1f}" text-anchor="end">{ms:g} ms</text>')
    for name in percentiles:
        if float(name) < 100:
            x = at(_place(float(name)), 0).split(",")[0]
            parts.append(f'<text x="{x}" y="{_HEIGHT - _BOTTOM + 20}" text-anchor="middle">{escape(name)} %</text>')
    line = " ".join(at(x, ms) for x, ms in points)
    dots = "".join('<circle cx="{}" cy="{}" r="3" fill="#c2410c"/>'.format(*at(x, ms).split(",")) for x, ms in points)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}'
        f'<polyline points="{line}" fill="none" stroke="#c2410c" stroke-width="2"/>{dots}</svg>\n'
    )


def _place(percentile: float) -> float:
    return -math.log10(1 - percentile / 100)


def _round_up(ms: float) -> float:
    """Return the next of 1, 2, 4, 8, 10 times a power of ten."""
    if ms <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(ms))
    return next(step * power for step in (1, 2, 4, 8, 10) if ms <= step * power * (1 + 1e-9))
