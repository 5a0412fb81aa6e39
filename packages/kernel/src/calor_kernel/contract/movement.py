"""Movement ops as views: strides without a copy, if possible.

A function returns None if the result is no view of the operand; the planner then copies the operand
to a dense one, of which reshape and bitcast are always views.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

from calor.dtypes import bool_
from calor.specs import Spec
from calor_kernel.contract.work import View, row_major

Movement = Callable[[View, Mapping[str, Any], Spec], View | None]


def view_of(op: str, view: View, attributes: Mapping[str, Any], result: Spec) -> View | None:
    """Return the result of an op as a view of its operand, None if impossible."""
    function = MOVEMENTS.get(op)
    return None if function is None else function(view, attributes, result)


def _reshape(view: View, attributes: Mapping[str, Any], result: Spec) -> View | None:
    return in_shape(view, result.shape)


def reshaped_strides(
    shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return the strides of a reshaped array, None if no strides express it.

    >>> reshaped_strides((4, 6), (6, 1), (2, 2, 6)), reshaped_strides((4, 6), (1, 4), (24,))
    ((12, 6, 1), None)
    """
    if 0 in wanted:
        return row_major(wanted)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    made: list[int] = []
    place = 0
    i, count = 0, len(wanted)
    while place < len(old):
        # The shortest runs of old and new axes with equal numbers of elements.
        first, size, start, total = place, old[place][0], i, 1
        place += 1
        while True:
            while total < size and i < count:
                total *= wanted[i]
                i += 1
            if total == size:
                break
            size *= old[place][0]
            place += 1
        run = old[first:place]
        if any(a[1] != b[0] * b[1] for a, b in pairwise(run)):
            return None
        step = run[-1][1]
        made += [step * inner for inner in row_major(wanted[start:i])]
    return (*made, *(1 for _ in wanted[i:]))


def in_shape(view: View, shape: tuple[int, ...]) -> View | None:
    """Return the same elements in another shape, None if no strides express it.

    >>> from calor.dtypes import float32
    >>> in_shape(View((6, 5), (1, 0), float32), (2, 3, 5)).strides
    (3, 1, 0)
    >>> in_shape(View((6, 5), (1, 0), float32), (2, 15)) is None
    True
    """
    if view.shape == shape:
        return view
    strides = reshaped_strides(view.shape, view.strides, shape)
    return None if strides is None else View(shape, strides, view.dtype, view.offset)


def permuted(view: View, order: Sequence[int]) -> View:
    """Return a view with its axes in another order.

    >>> from calor.dtypes import float32
    >>> permuted(View((2, 3), (3, 1), float32), (1, 0)).strides
    (1, 3)
    """
    shape, strides = ([numbers[axis] for axis in order] for numbers in (view.shape, view.strides))
    return View(tuple(shape), tuple(strides), view.dtype, view.offset)


def coalesced(
    shape: Sequence[int], *strides: Sequence[int]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return the shape and each view's strides, with axes merged where all strides allow it.

    Axes of one element are left out.

    >>> coalesced((2, 1, 3, 4), (12, 7, 4, 1), (0, 0, 4, 1))
    ((2, 12), ((12, 1), (0, 1)))
    """
    sizes: list[int] = []
    merged: list[list[int]] = []
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        now = [s[axis] for s in strides]
        if merged and all(a == b * n for a, b in zip(merged[-1], now, strict=True)):
            sizes[-1] *= n
            merged[-1] = now
        else:
            sizes.append(n)
            merged.append(now)
    return tuple(sizes), tuple(tuple(m[k] for m in merged) for k in range(len(strides)))


def _permute(view: View, attributes: Mapping[str, Any], result: Spec) -> View:
    return permuted(view, attributes["axes"])


def _expand(view: View, attributes: Mapping[str, Any], result: Spec) -> View:
    lead = len(result.shape) - len(view.shape)
    kept = tuple(
        s if n == m else 0
        for n, m, s in zip(view.shape, result.shape[lead:], view.strides, strict=True)
    )
    return View(result.shape, (0,) * lead + kept, view.dtype, view.offset)


def _slice(view: View, attributes: Mapping[str, Any], result: Spec) -> View:
    starts, steps = attributes["starts"], attributes["steps"]
    offset = view.offset
    if result.size:
        offset += sum(a * s for a, s in zip(starts, view.strides, strict=True))
    strides = tuple(s * step for s, step in zip(view.strides, steps, strict=True))
    return View(result.shape, strides, view.dtype, offset)


def _flip(view: View, attributes: Mapping[str, Any], result: Spec) -> View:
    offset, strides = view.offset, list(view.strides)
    for axis in attributes["axes"]:
        if result.size:
            offset += (view.shape[axis] - 1) * strides[axis]
        strides[axis] = -strides[axis]
    return View(result.shape, tuple(strides), view.dtype, offset)


def _part(view: View, attributes: Mapping[str, Any], result: Spec, number: int) -> View:
    strides = tuple(2 * s for s in view.strides)
    return View(view.shape, strides, result.dtype, 2 * view.offset + number)


def _bitcast(view: View, attributes: Mapping[str, Any], result: Spec) -> View | None:
    size, wanted = view.dtype.itemsize, result.dtype.itemsize
    if result.dtype is bool_ and view.dtype is not bool_:
        return None  # Any nonzero byte is true, and true is 1 in memory.
    if size == wanted:
        return View(view.shape, view.strides, result.dtype, view.offset)
    if size > wanted:
        parts = size // wanted
        strides = (*(s * parts for s in view.strides), 1)
        return View(result.shape, strides, result.dtype, view.offset * parts)
    parts = wanted // size
    # From an axis of one element no other is reached, whatever its stride is.
    strides = tuple(0 if n == 1 else s for n, s in zip(view.shape, view.strides, strict=True))[:-1]
    if view.strides[-1] != 1 or any(n % parts for n in (view.offset, *strides)):
        return None
    strides = tuple(s // parts for s in strides)
    return View(result.shape, strides, result.dtype, view.offset // parts)


MOVEMENTS: Final[Mapping[str, Movement]] = {
    "reshape": _reshape,
    "permute": _permute,
    "expand": _expand,
    "slice": _slice,
    "flip": _flip,
    "real": partial(_part, number=0),
    "imag": partial(_part, number=1),
    "conj": lambda view, attributes, result: None if view.dtype.is_complex else view,
    "cast": lambda view, attributes, result: view if view.dtype is result.dtype else None,
    "bitcast": _bitcast,
    "stop_gradient": lambda view, attributes, result: view,
    "barrier": lambda view, attributes, result: view,
}
# Always views of a dense operand, so no device needs a kernel for them.
ALWAYS_OF_DENSE: Final = frozenset(
    ("reshape", "permute", "expand", "slice", "flip", "real", "imag", "stop_gradient", "barrier")
)
