"""Values and statements as Python source."""

from __future__ import annotations

from typing import Any

import numpy as np

# Digits that tell each float32 from every other, and each float64.
_DIGITS = 9, 17


def literal(value: Any, digits: int = _DIGITS[0]) -> str:
    """Return a value as Python source; elements of arrays of float64 have all their digits.

    >>> import numpy as np
    >>> from calor_onnx.source_text import literal
    >>> literal(np.array([1, 2])), literal(0.1), literal([float("inf")])
    ('np.array([1, 2], np.int64)', '0.1', '[float("inf")]')
    """
    if isinstance(value, np.ndarray):
        kind = "object" if value.dtype == np.object_ else f"np.{value.dtype.name}"
        return f"np.array({literal(value.tolist(), _digits(value))}, {kind})"
    if isinstance(value, float):
        if value != value or abs(value) == float("inf"):
            return f'float("{value}")'
        return repr(float(f"{value:.{digits}g}"))
    if isinstance(value, list):
        return f"[{', '.join(literal(v, digits) for v in value)}]"
    return repr(value)


def item_literal(array: Any) -> str:
    """Return the element of an array of one as Python source."""
    return literal(array.reshape(()).item(), _digits(array))


def _digits(array: Any) -> int:
    return _DIGITS[array.dtype == np.float64]


def wrapped(line: str) -> list[str]:
    """Return a statement in lines of up to 100 columns, broken between the arguments of a call."""
    start = line.find("(") + 1
    called = line[start - 2 : start - 1].isidentifier()
    if len(line) <= 100 or not called or not line.endswith(")"):
        return [line]
    pieces, depth, begin = [], 0, start
    for place in range(start, len(line) - 1):
        sign = line[place]
        depth += (sign in "([") - (sign in ")]")
        if depth < 0:
            # The first bracket closes before the end, so the statement is not one call.
            return [line]
        if sign == "," and not depth:
            pieces.append(line[begin:place].strip())
            begin = place + 1
    pieces.append(line[begin:-1].strip())
    made = [line[:start]]
    row = "           "
    for piece in pieces:
        if len(row) + len(piece) + 2 > 100 and row.strip():
            made.append(row)
            row = "           "
        row += f" {piece},"
    return [*made, row, "        )"]
