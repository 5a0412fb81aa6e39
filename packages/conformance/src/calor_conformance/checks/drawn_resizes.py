"""Signals, images and volumes resized to drawn sizes and by drawn factors, in every mode.

A factor that gives no whole size says more than the size that it is rounded to: positions lie apart
by its inverse, and so does the filter's width. Sizes, one factor and a factor for each axis meet
every option, dtype and form, and a matrix of weights for each axis says what is due. What arrives
at the elements by the gradient is the same matrix the other way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import float32, float64

from ..rows.functions.layers.images import MODES, interpolated
from .base import Check, Place

CONTRACT: Final = "what is resized has the positions and the filter of the size or factor given"
PACKAGE: Final = "calor_nn"
_TURNS: Final = 10
Rng = np.random.Generator


def _sizes(rng: Rng, mode: str, old: tuple[int, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return options for a call, and the same with a number for each axis."""
    rank = len(old)
    way = int(rng.integers(4))
    if way == 0:
        size = [int(n) for n in rng.integers(1, 10, rank)]
        return {"size": size}, {"size": size}
    if way == 1:
        one = int(rng.integers(1, 10))
        return {"size": one}, {"size": [one] * rank}
    # Nearest elements are found in float32, where a tie may be broken by a rounding of the factor.
    exact = mode.startswith("nearest")
    low = 1 / min(old)
    factors = [
        float(rng.integers(1, 13)) / 4 if exact else float(rng.uniform(0.3, 2.6)) for _ in old
    ]
    factors = [max(f, 1.0 if exact else low * 1.01) for f in factors]
    if way == 2:
        return {"scale_factor": factors[0]}, {"scale_factor": [factors[0]] * rank}
    return {"scale_factor": factors}, {"scale_factor": factors}


def _one(rng: Rng, place: Place, mode: str, rank: int) -> None:
    old = tuple(int(n) for n in rng.integers(2, 9, rank))
    options, each = _sizes(rng, mode, old)
    if mode.endswith(("linear", "cubic")):
        for name in ("align_corners", "antialias"):
            if rng.random() < 0.5:
                options[name] = each[name] = True
    double = place.plain.info.supports("mul", float64) and rng.random() < 0.3
    kind = np.float64 if double else np.float32
    x = rng.normal(size=(2, 1, *old)).astype(kind)
    call: Callable[[Any], Any] = partial(
        import_module(f"{PACKAGE}.functional").interpolate, mode=mode, **options
    )
    told = f"{mode} of {old}, {options}, {np.dtype(kind)}"
    want = interpolated(x.astype(np.float64), mode=mode, **each)
    given = calor.asarray(x)
    made = (calor.jit(call)(given) if rng.random() < 0.3 else place.call(call, given)).numpy()
    assert made.dtype == kind, f"{told}: {made.dtype}"
    assert made.shape == want.shape, f"{told}: shape {made.shape}, not {want.shape}"
    near = 1e-4 * max(1.0, float(np.abs(want).max()))
    off = np.abs(made - want)
    assert (off <= near).all(), f"{told}: {off.max():.2g} off at {np.argmax(off)}"
    pulled = rng.normal(size=want.shape).astype(kind)
    (slopes,) = calor.vjp(call, given)[1](calor.asarray(pulled))
    # A linear map and its adjoint have one product with any pair.
    left = float(np.sum(slopes.numpy().astype(np.float64) * x))
    right = float(np.sum(pulled.astype(np.float64) * want))
    room = 1e-4 * (1 + float(np.sum(np.abs(pulled * want))))
    assert abs(left - right) <= room, f"the gradient of {told}: {left}, not {right}"


def _run(mode: str, rank: int, place: Place) -> None:
    for turn in range(_TURNS):
        if place.tries(turn, 5):
            rng = np.random.default_rng([place.seed, crc32(mode.encode()), rank, turn])
            _one(rng, place, mode, rank)


def drawn_resizes() -> Iterator[Check]:
    """Yield a check of each mode and number of axes, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    for rank, modes in MODES.items():
        for mode in modes:
            yield Check(
                kind="functions",
                subject=f"{PACKAGE}.drawn-resizes-{mode}-of-{rank}",
                tier="full",
                contract=CONTRACT,
                run=partial(_run, mode, rank),
                text=partial(inspect.getsource, _one),
                dtypes=(float32,),
                looks=True,
            )
