"""Small plots as SVG, without a plotting library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .stats import Interval

_COLORS = {"CONTINUE": "#2b8a3e", "NUDGE": "#e8890c", "SHIP": "#1c7ed6", "STOP": "#c92a2a", "ESCALATE": "#862e9c"}
_LEFT = 110
_WIDTH = 560


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot that notebooks show."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the plot to a file."""
        from pathlib import Path

        Path(path).write_text(self.svg, encoding="utf-8")

    def __repr__(self) -> str:
        return f"Plot({len(self.svg)} bytes of SVG)"


def interval_plot(rows: Sequence[tuple[str, float, Interval]]) -> Plot:
    """Draw differences with their intervals, and a line at zero."""
    ends = [0.0, *(end for _, value, found in rows for end in (value, found.low, found.high))]
    low, high = min(ends), max(ends)
    margin = 0.05 * (high - low) or 1.0
    low, high = low - margin, high + margin

    def place(value: float) -> float:
        return round(_LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - 20), 1)

    height = 30 * max(len(rows), 1) + 30
    parts = [_line(place(0.0), 8, place(0.0), height - 22, "#888", dashed=True)]
    for index, (name, value, found) in enumerate(rows):
        middle = 24 + 30 * index
        color = "#2b8a3e" if found.low > 0 else "#c92a2a" if found.high < 0 else "#495057"
        parts.append(_text(8, middle + 4, name))
        parts.append(_line(place(found.low), middle, place(found.high), middle, color))
        parts.append(f'<circle cx="{place(value)}" cy="{middle}" r="4" fill="{color}"/>')
    ticks = (low + margin, 0.0, high - margin)
    parts += [_text(place(value), height - 6, f"{value:.3g}", anchor="middle") for value in ticks]
    return _plot(parts, height)


def signal_plot(signals: Sequence[str], levels: Sequence[float]) -> Plot:
    """Draw a dot per step, colored by its signal, at the height of its level."""
    height, base = 160, 120
    top = max(levels, default=0.0) or 1.0
    width = (_WIDTH - _LEFT - 20) / max(len(signals), 1)
    points = [
        (round(_LEFT + width * (index + 0.5), 1), round(base - 100 * (levels[index] / top if levels else 0.0), 1))
        for index in range(len(signals))
    ]
    path = " ".join(f"{x},{y}" for x, y in points)
    parts = [f'<polyline points="{path}" fill="none" stroke="#adb5bd"/>', _line(_LEFT, base, _WIDTH - 10, base, "#888")]
    parts += [
        f'<circle cx="{x}" cy="{y}" r="4" fill="{_COLORS.get(signal, "#495057")}"><title>{signal}</title></circle>'
        for (x, y), signal in zip(points, signals, strict=True)
    ]
    parts.append(_text(8, base - 96, f"level {top:.3g}"))
    parts.append(_text(8, base + 4, "0"))
    used = [signal for signal in _COLORS if signal in signals]
    for index, signal in enumerate(used):
        x = _LEFT + 90 * index
        parts.append(f'<circle cx="{x}" cy="{height - 14}" r="4" fill="{_COLORS[signal]}"/>')
        parts.append(_text(x + 9, height - 10, signal))
    return _plot(parts, height)


def _plot(parts: Sequence[str], height: int) -> Plot:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    return Plot(f'{head} font-family="sans-serif" font-size="12">{"".join(parts)}</svg>')


def _line(x1: float, y1: float, x2: float, y2: float, color: str, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{color}" stroke-width="2"{dash}/>'


def _text(x: float, y: float, content: str, anchor: str = "start") -> str:
    from html import escape

    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="#495057">{escape(content)}</text>'
