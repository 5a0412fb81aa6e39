"""Every elementwise op at ranks 0 to 5, empty and of one element; every op on views.

Views come from movement ops just before the op, so a backend meets negative strides, permuted axes,
stepped slices and broadcast zeros as its operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.dtypes import DType
from calor.ops import movement as m

from .device import judge, numpy_of, put
from .language import Array, Case
from .tables import CASES

SHAPES = [
    (), (1,), (0,), (5,), (1, 1), (3, 0), (2, 3), (2, 1, 3), (0, 2, 3), (2, 2, 1, 2),
    (1, 2, 1, 3, 2),
]  # fmt: skip
FIRST: dict[str, tuple[Case, DType]] = {}
for _c in CASES:
    if _c.elementwise:
        _main = next((t for t in _c.dtypes if t.name == "float32"), _c.dtypes[0])
        FIRST.setdefault(_c.op, (_c, _main))


@pytest.mark.parametrize("op", FIRST)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shape(op: str, shape: tuple[int, ...]) -> None:
    row, dtype = FIRST[op]
    resized = row.resized(shape)
    arrays = resized.draw(dtype)
    judge(resized, dtype, arrays, numpy_of(resized.call(*put(arrays), dtype=dtype)))


def _flipped(x: Array) -> Any:
    axes = tuple(range(x.ndim))
    return m.flip(calor.asarray(np.flip(x).copy()), axes=axes)


def _transposed(x: Array) -> Any:
    axes = tuple(reversed(range(x.ndim)))
    return m.permute(calor.asarray(x.transpose().copy()), axes=axes)


def _stepped(x: Array) -> Any:
    """Backward every other element of a larger array."""
    larger = np.zeros([2 * n + 1 for n in x.shape], x.dtype)
    larger[tuple(slice(1, None, 2) for _ in x.shape)] = np.flip(x)
    return m.slice_(
        calor.asarray(larger),
        starts=tuple(max(2 * n - 1, 0) for n in x.shape),
        stops=tuple(-1 if n else 0 for n in x.shape),
        steps=(-2,) * x.ndim,
    )


def _reshaped(x: Array) -> Any:
    return m.reshape(calor.asarray(x.reshape(-1)), shape=x.shape)


VIEWS: dict[str, Callable[[Array], Any]] = {
    "flipped": _flipped,
    "transposed": _transposed,
    "stepped": _stepped,
    "reshaped": _reshaped,
}


def _view_cases() -> list[tuple[Case, DType]]:
    made = []
    for c in CASES:
        if c.inputs:
            main = next((t for t in c.dtypes if t.name == "float32"), c.dtypes[0])
            made.append((c, main))
    return made


@pytest.mark.parametrize(("row", "dtype"), _view_cases(), ids=[c.label for c, _ in _view_cases()])
def test_view(row: Case, dtype: DType) -> None:
    arrays = row.draw(dtype)
    for view in VIEWS.values():
        judge(row, dtype, arrays, numpy_of(row.call(*map(view, arrays), dtype=dtype)))


@pytest.mark.parametrize("op", FIRST)
def test_broadcast(op: str) -> None:
    row, dtype = FIRST[op]
    column = row.resized((3, 1)).draw(dtype)
    spread = [np.broadcast_to(a, (3, 4)) for a in column]
    tensors = [m.expand(t, shape=(3, 4)) for t in put(column)]
    judge(row.resized((3, 4)), dtype, spread, numpy_of(row.call(*tensors, dtype=dtype)))
