"""Line charts and histograms as SVG text; knows numbers and nothing of training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 420, 190
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 14, 26
INNER_WIDTH, INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM


def line_chart(values: Sequence[float], form: str = "{:.3g}") -> str:
    """One value a step, from step 1."""
    shown = [value for value in values if math.isfinite(value)]
    if not shown:
        return ""
    low, high = _range(min(shown), max(shown))
    points = [
        (LEFT + INNER_WIDTH * (index + 0.5) / len(values), _y(value, low, high))
        for index, value in enumerate(values)
        if math.isfinite(value)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    floor = TOP + INNER_HEIGHT
    area = f"{points[0][0]:.1f},{floor} {path} {points[-1][0]:.1f},{floor}"
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"><title>step {index}: {form.format(value)}</title></circle>'
        for index, ((x, y), value) in enumerate(zip(points, shown, strict=True), 1)
    )
    shape = f'<polygon class="area" points="{area}"/><polyline class="line" points="{path}"/>{dots}'
    ticks = [(LEFT + INNER_WIDTH * (index + 0.5) / len(values), str(index + 1)) for index in _few(len(values))]
    return _frame(shape, low, high, ticks, form)


def histogram(values: Sequence[float], bins: int = 16, form: str = "{:.3g}") -> str:
    """How often values fall into each of `bins` equal ranges."""
    if not values:
        return ""
    low, high = min(values), max(values)
    if high - low < 1e-12:
        low, high = low - 0.5, high + 0.5
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int((value - low) / (high - low) * bins))] += 1
    step = INNER_WIDTH / bins
    bars = ""
    for index, count in enumerate(counts):
        edges = (form.format(low + (high - low) * place / bins) for place in (index, index + 1))
        height = INNER_HEIGHT * count / max(counts)
        bars += (
            f'<rect class="bar" x="{LEFT + step * index + 1:.1f}" y="{TOP + INNER_HEIGHT - height:.1f}" '
            f'width="{step - 2:.1f}" height="{height:.1f}" rx="2"><title>{" to ".join(edges)}: {count}</title></rect>'
        )
    ticks = [(LEFT + INNER_WIDTH * part, form.format(low + (high - low) * part)) for part in (0, 0.5, 1)]
    return _frame(bars, 0, max(counts), ticks, "{:.0f}")


def _frame(shape: str, low: float, high: float, ticks: Sequence[tuple[float, str]], form: str) -> str:
    grid = ""
    for part in (0, 0.5, 1):
        value = low + (high - low) * part
        y = _y(value, low, high)
        grid += f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        grid += f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(form.format(value))}</text>'
    below = "".join(
        f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(text)}</text>' for x, text in ticks
    )
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{grid}{shape}{below}</svg>'


def _y(value: float, low: float, high: float) -> float:
    return TOP + INNER_HEIGHT * (1 - (value - low) / ((high - low) or 1))


def _range(low: float, high: float) -> tuple[float, float]:
    margin = (high - low) * 0.08 or max(abs(high), 1e-3) * 0.1
    return low - margin, high + margin


def _few(number: int) -> list[int]:
    return sorted({round(part * (number - 1) / 5) for part in range(6)})
