"""The marks of a drawing as SVG elements: boxes with text, lines, frames."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

LINE_HEIGHT: Final = 15.0
PADDING: Final = 8.0
# Width of a character; a little more than in the usual sans-serif fonts at these sizes.
_NAME_WIDTH: Final = 7.9
_TEXT_WIDTH: Final = 6.7

# Scoped by a class, so that a page with the picture keeps its own style.
STYLE: Final = "".join(
    f".calor-graph {rule}"
    for rule in (
        "text{font:11px 'DejaVu Sans',Verdana,Helvetica,Arial,sans-serif;fill:#222}",
        ".name{font-size:12.5px;font-weight:bold}",
        ".small{font-size:10px;fill:#555}",
        ".line{fill:none;stroke:#8a8f98;stroke-width:1.2}",
        "text.told{font-weight:bold;fill:#9b2c2c;paint-order:stroke;stroke:#fff;stroke-width:3px}",
        ".line.told{stroke:#c05050;stroke-width:2.4}",
        ".host{stroke-dasharray:4 3}",
        ".unused{opacity:.45}",
    )
)
ARROW: Final = (
    '<marker id="{id}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="6.5" markerHeight="6.5" '
    'orient="auto"><path d="M0 0.8L8 4L0 7.2z" fill="#8a8f98"/></marker>'
)


def clean(text: str) -> str:
    """Escape text for SVG and replace characters that XML 1.0 does not allow."""
    return escape("".join(c if _allowed(ord(c)) else "\ufffd" for c in text))


def _allowed(code: int) -> bool:
    if code < 0x20:
        return code in (0x9, 0xA, 0xD)
    return not (0xD800 <= code <= 0xDFFF or code in (0xFFFE, 0xFFFF))


def number(value: float) -> str:
    """Format a coordinate with at most one decimal."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def text_size(name: str, lines: Sequence[str]) -> tuple[float, float]:
    """Return the size of a box with a name and lines below it."""
    width = max(len(name) * _NAME_WIDTH, *(len(line) * _TEXT_WIDTH for line in ("", *lines)))
    return width + 2 * PADDING, (1 + len(lines)) * LINE_HEIGHT + PADDING


def box(
    x: float,
    y: float,
    size: tuple[float, float],
    colours: tuple[str, str],
    *,
    kind: str = "",
    radius: float = 4,
) -> str:
    """Return a rectangle; ``kind`` is a class of the style sheet."""
    fill, stroke = colours
    of_class = f' class="{kind}"' if kind else ""
    return (
        f'<rect{of_class} x="{number(x)}" y="{number(y)}" width="{number(size[0])}" '
        f'height="{number(size[1])}" rx="{number(radius)}" fill="{fill}" stroke="{stroke}"/>'
    )


def words(x: float, y: float, name: str, lines: Sequence[str], width: float) -> list[str]:
    """Return text elements for a name and the lines below it, centred in a width."""
    middle = number(x + width / 2)
    made = []
    for i, line in enumerate((name, *lines)):
        kind = ' class="name"' if i == 0 else ""
        baseline = number(y + PADDING / 2 + (i + 0.75) * LINE_HEIGHT)
        made.append(
            f'<text{kind} x="{middle}" y="{baseline}" text-anchor="middle">{clean(line)}</text>'
        )
    return made


def label(x: float, y: float, text: str, kind: str = "small") -> str:
    """Return a text element that begins at (x, y)."""
    return f'<text class="{kind}" x="{number(x)}" y="{number(y)}">{clean(text)}</text>'


def curve(
    points: Sequence[tuple[float, float]], arrow: str | None, note: str, kind: str = "line"
) -> str:
    """Return a path down through points; it bends between two columns, vertical at both ends."""
    (x, y), *rest = points
    path = [f"M{number(x)} {number(y)}"]
    for next_x, next_y in rest:
        if abs(next_x - x) < 0.5:
            path.append(f"L{number(next_x)} {number(next_y)}")
        else:
            middle = number((y + next_y) / 2)
            path.append(
                f"C{number(x)} {middle} {number(next_x)} {middle} {number(next_x)} {number(next_y)}"
            )
        x, y = next_x, next_y
    head = f' marker-end="url(#{arrow})"' if arrow else ""
    return f'<path class="{kind}" d="{"".join(path)}"{head}><title>{clean(note)}</title></path>'
