"""Strip plots of ratios as SVG: one row of dots for each group, on a logarithmic axis.

The text of a plot depends on its data alone, so a test can tell whether a committed file is
current.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TypeAlias

from benchmark_results import geometric_mean

# Okabe and Ito's colours, which readers with colour blindness can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
WIDTH, LEFT, RIGHT = 760, 250, 60
ROW, TOP, BOTTOM = 22, 58, 46
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
# Further ticks for plots of a narrow range.
FINE = (0.6, 0.7, 0.8, 0.9, 1.25, 1.5, 1.75)
FONT = "font-family='Helvetica, Arial, sans-serif'"
FAINT = "fill-opacity='0.6'"
# From a ratio to a place on the axis.
Scale: TypeAlias = Callable[[float], float]
AXIS = "peer's time / calor's time; right of 1 calor is faster"


@dataclass(frozen=True)
class Strip:
    """One row of a plot: its label, and the ratios of each series by the series' name."""

    label: str
    series: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def values(self) -> list[float]:
        return [value for values in self.series.values() for value in values]


def svg(title: str, strips: Sequence[Strip], means: bool = False) -> str:
    """A strip plot; with `means` a black mark and a number show each row's geometric mean."""
    names = list(dict.fromkeys(name for strip in strips for name in strip.series))
    low, high = limits([value for strip in strips for value in strip.values])
    height = TOP + ROW * len(strips) + BOTTOM

    def x(value: float) -> float:
        share = math.log(value / low) / math.log(high / low)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    size = f"viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}'"
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' {size} {FONT} font-size='12'>",
        f"<title>{escape(title)}</title>",
        f"<rect width='{WIDTH}' height='{height}' fill='white'/>",
        text(12, 20, title, "font-weight='bold' font-size='14'"),
        *legend(names),
        *axis(ticks_between(low, high), x, height),
    ]
    for index, strip in enumerate(strips):
        y = TOP + ROW * index + ROW // 2
        lines += row(strip, names, x, y)
        if means:
            lines += mean(strip, x, y)
    return "\n".join([*lines, "</svg>", ""])


def limits(values: Sequence[float]) -> tuple[float, float]:
    """The ticks around all values and around 1."""
    low = max(tick for tick in TICKS if tick <= min(*values, 0.99))
    return low, min(tick for tick in TICKS if tick >= max(*values, 1.01))


def ticks_between(low: float, high: float) -> list[float]:
    ticks = sorted({*TICKS, *FINE}) if high / low <= 4 else TICKS
    return [tick for tick in ticks if low <= tick <= high]


def legend(names: Sequence[str]) -> Iterator[str]:
    if len(names) < 2:
        return
    x = 12
    for name, colour in zip(names, COLOURS, strict=False):
        yield f"<circle cx='{x + 5}' cy='38' r='4' fill='{colour}'/>"
        yield text(x + 13, 42, name)
        x += 28 + 7 * len(name)


def axis(ticks: Sequence[float], x: Scale, height: int) -> Iterator[str]:
    bottom = height - BOTTOM
    for tick in ticks:
        colour, width = ("#555555", 1.5) if tick == 1.0 else ("#dddddd", 1)
        yield (
            f"<line x1='{x(tick)}' x2='{x(tick)}' y1='{TOP}' y2='{bottom}' "
            f"stroke='{colour}' stroke-width='{width}'/>"
        )
        yield text(x(tick), bottom + 16, f"{tick:g}", "text-anchor='middle' fill='#333333'")
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield text(middle, height - 10, AXIS, "text-anchor='middle' fill='#333333'")


def row(strip: Strip, names: Sequence[str], x: Scale, y: int) -> Iterator[str]:
    yield text(LEFT - 12, y + 4, strip.label, "text-anchor='end'")
    # Rows of two series keep them apart, as dots of many cases cover each other.
    apart = 3 if len(names) == 2 else 0
    for name, values in strip.series.items():
        index = names.index(name)
        colour, level = COLOURS[index % len(COLOURS)], y + apart * (2 * index - 1)
        for value in values:
            yield f"<circle cx='{x(value)}' cy='{level}' r='4' fill='{colour}' {FAINT}/>"


def mean(strip: Strip, x: Scale, y: int) -> Iterator[str]:
    value = geometric_mean(strip.values)
    yield f"<rect x='{x(value) - 1.5:g}' y='{y - 8}' width='3' height='16' fill='black'/>"
    yield text(WIDTH - 12, y + 4, f"{value:.2f}", "text-anchor='end' fill='#333333'")


def text(x: float, y: float, words: str, style: str = "") -> str:
    return f"<text x='{x:g}' y='{y}' {style}>{escape(words)}</text>"
