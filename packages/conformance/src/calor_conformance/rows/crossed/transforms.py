"""Fourier transforms: lengths of each small factor, alone and with others, and of large primes."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import DType, complex64, complex_of, float32
from calor.ops.base import find

from ..domains import normal
from ..language import Array, ulp
from ..tables.spectral import _fft
from .language import Problem, Subject, one, shape_of
from .pairwise import Scenario

# Powers and primes that kernels compute in registers, products of them, and primes that none does.
_LENGTHS = (8, 1, 2, 3, 4, 5, 7, 9, 11, 13, 16, 17, 26, 37, 49, 64, 121, 127, 143, 210)
_FACTORS: dict[str, Any] = {
    "length": _LENGTHS,
    "place": ((2, 0), (2, 1)),
    "order": ("plain", "flipped"),
    "mode": ("jit",),
}


def _size(x: Array, axis: int, shape: tuple[int, ...]) -> Array:
    """Return the largest that any result could be."""
    return np.asarray(np.abs(x).sum(axis, keepdims=True) + np.zeros(shape))


def _transform(scenario: Scenario, rng: np.random.Generator, dtype: DType) -> Problem:
    shape, axis = shape_of(scenario, rng)
    kind, n = scenario["kind"], shape[axis]
    halved = tuple(n // 2 + 1 if a == axis else m for a, m in enumerate(shape))
    given = complex_of(dtype) if kind == "c2r" else dtype
    x = np.asarray(normal().draw(rng, given, halved if kind == "c2r" else shape))
    attributes = {"kind": kind, "axes": (axis,), "length": n}
    return one(
        [x],
        lambda t: find("fft")(t, **attributes),
        lambda a: _fft(a, **attributes),
        dtype=complex_of(dtype) if kind == "r2c" else dtype,
        tol=ulp(4),
        scale=lambda a: 2 * _size(a, axis, halved if kind == "r2c" else shape),
        zeros=False,
    )


SUBJECTS: list[Subject] = [
    Subject("fft", _transform, (complex64,), {**_FACTORS, "kind": ("forward", "inverse")},
            {"length": (1001, 1024)}, name="lengths", whole=True),
    Subject("fft", _transform, (float32,), {**_FACTORS, "kind": ("r2c", "c2r")},
            {"length": (1001, 1024)}, name="real-lengths", whole=True),
]  # fmt: skip
