"""Measures a device's floating-point behaviour where its language leaves it open.

Requirements: without notice, a compiler may contract a * b + c, simplify (x + large) - large to x,
round quotients and roots freely, and flush subnormals to zero; a device may end long loops. One
kernel tests all of it; a language contributes only its text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

# The units of the kernel, one cube, and the rounds of a loop that a device may end.
UNITS: Final = 64
TURNS: Final = 1 << 17
LARGE: Final = 2.0**24
SMALL: Final = 1e-40


@dataclass(frozen=True, slots=True)
class Seen:
    """A device's measured behaviour; ``lanes``: the units of a plane, 1 if there are none.

    ``changes``: "contracts" products into sums, or "reassociates" as well.
    """

    fused: bool
    changes: str
    rounded: bool
    flushes: bool
    limited: bool
    lanes: int


def given() -> np.ndarray[Any, Any]:
    """Return the kernel's input: 3 times UNITS rows of 4 float32, the first x, y, -xy, 1.

    Row UNITS + i begins with SMALL; all else is 0. SMALL is read from memory, because products with
    subnormal literals may be right even if others are flushed (NVIDIA's Vulkan).

    Unit i writes row UNITS + i: x / y, the root of x, a product plus a sum of the first three, and
    (x + LARGE) - LARGE; and row 2 UNITS + i: fma of the first three, the rounds of a loop of TURNS
    that adds the fourth number (0 but for unit 0), the units of its plane, and the fourth number
    times the small one.

    >>> given().shape
    (3, 64, 4)
    """
    x, y = np.random.default_rng(0).uniform(1, 2, (2, UNITS)).astype(np.float32)
    data = np.zeros((3, UNITS, 4), np.float32)
    data[0] = np.stack([x, y, -(x * y), np.ones_like(x)], axis=1)
    data[1, :, 0] = SMALL
    return data


def seen(found: np.ndarray[Any, Any]) -> Seen:
    """Return the behaviour shown by the kernel's output."""
    x, y = found[0, :, 0], found[0, :, 1]
    quotient, root, contracted, near = found[1].T
    large = np.float32(LARGE)
    changes = "reassociates" if (near != (x + large) - large).any() else ""
    return Seen(
        fused=bool(found[2, :, 0].any()),
        changes=changes or ("contracts" if contracted.any() else ""),
        rounded=bool((quotient == x / y).all() and (root == np.sqrt(x)).all()),
        flushes=not found[2, :, 3].any(),
        limited=bool(found[2, 0, 1] < TURNS),
        lanes=int(found[2, 0, 2]),
    )
