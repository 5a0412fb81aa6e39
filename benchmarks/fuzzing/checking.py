"""Whether two libraries agree, and which of them is wrong where they do not.

Results are near when their distance is less than a part of their norm, which depends on the dtype,
and that of each number less than ten times this part of the largest. Where they are not, the work
is done in float64 on the host, and the library that is further from that is wrong.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fuzzing.cases import Sample, Work

Array = np.ndarray[Any, Any]
_NEAR = {"f32": 5e-5, "tf32": 4e-3, "bf16": 2e-2, "f16": 4e-3}
_SINGLE = 10
# The least norm that distances are parts of. Operands are of about one, so a smaller result is the
# tail of a function, whose digits a polynomial may have where the reference has underflowed.
_LEAST = 1e-12
# Functions that bend at zero, and how much further gradients may be apart behind them: a number
# near zero is on the other side of the bend after another rounding. As many numbers are as
# roundings are large, and their gradients are lost whole, so the distance is a part of the root,
# and a number may be off by as much as the largest.
_BENT, _FLIPS = frozenset(("relu", "leaky_relu", "hard_swish", "train_relu")), 4
_ROOT = 1 / 3
# What the host computes in float64 at most, so that a check takes seconds.
MOST_FLOPS = 5e10


def tolerance(sample: Sample, work: Work, exact: bool) -> float:
    """Return the part of their norm by which results may lie apart.

    ``exact``: TF32 is computed as float32, as on processors.
    """
    dtype = "f32" if exact and sample.dtype == "tf32" else sample.dtype
    near = _NEAR[dtype] * (1 + math.log2(max(work.depth, 1)) / 8)
    return max(_FLIPS * near, _ROOT * math.sqrt(near)) if is_bent(sample) else near


def is_bent(sample: Sample) -> bool:
    """Return whether gradients behind a bend are compared."""
    return sample.gradient and not _BENT.isdisjoint(map(str, sample.parameters.values()))


def single_of(sample: Sample, near: float) -> float:
    """Return how much further apart a number may be, as a part of the largest."""
    return max(_SINGLE, 1 / near) if is_bent(sample) else _SINGLE


def apart(ours: Array, theirs: Array, single: float = _SINGLE) -> float:
    """Return how far results are apart, as a part of their norm; inf for another shape or NaN.

    ``single``: how much further apart, of the largest, a number may be.
    """
    if ours.shape != theirs.shape:
        return math.inf
    if not ours.size:
        return 0.0
    a, b = ours.astype(np.float64).ravel(), theirs.astype(np.float64).ravel()
    finite = np.isfinite(b)
    if not finite.all():
        same = np.isnan(a) == np.isnan(b)
        if not (same & (finite | np.isnan(b) | (a == b))).all():
            return math.inf
        a, b = a[finite], b[finite]
    if not a.size:
        return 0.0
    off, largest = np.abs(a - b), float(np.abs(b).max())
    norm = float(np.linalg.norm(off)) / max(float(np.linalg.norm(b)), _LEAST)
    furthest = float(off.max()) / max(single * largest, _LEAST)
    return math.inf if math.isnan(norm) else max(norm, furthest)


def problems(
    work: Work,
    near: float,
    ours: Sequence[Array],
    theirs: Sequence[Array],
    first: Array,
    exact: Callable[[], Sequence[Array] | None],
    single: float = _SINGLE,
) -> tuple[str, str]:
    """Return what is wrong with our results and with the peer's, empty texts for nothing.

    ``first`` is the first operand; ``exact()`` gives the results of float64, None if they take too
    long, which leaves the blame with us. ``single`` is that of :func:`apart`.
    """
    if len(ours) != len(theirs):
        return f"{len(ours)} results beside {len(theirs)}", ""
    if work.checked == "picks":
        ours, theirs = ([np.take_along_axis(first, x[0][..., None], -1)] for x in (ours, theirs))
    if work.checked == "none":
        ours, theirs = ([np.zeros(x.shape) for x in y] for y in (ours, theirs))
    distances = [apart(a, b, single) for a, b in zip(ours, theirs, strict=True)]
    if all(distance <= near for distance in distances):
        return "", ""
    worst = int(np.argmax(distances))
    said = f"result {worst} is {distances[worst]:.2g} of its norm off"
    if ours[worst].shape != theirs[worst].shape:
        return f"result {worst} is of shape {ours[worst].shape}, not {theirs[worst].shape}", ""
    right = exact()
    if right is None:
        return said, ""
    mine = max(apart(a, c, single) for a, c in zip(ours, right, strict=True))
    others = max(apart(b, c, single) for b, c in zip(theirs, right, strict=True))
    compared = f"{said}; beside float64 calor {mine:.2g}, the peer {others:.2g}"
    if mine <= near or mine <= 1.5 * others:
        return "", compared
    return compared, ""
