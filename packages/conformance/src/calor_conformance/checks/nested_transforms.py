"""Transforms nested in any order: each around each other, to depth five, with what they take.

A transform is right alone and wrong inside or around another one. Programs are drawn: which
transforms, around which operations, what is captured and what is given, structures, axes, and what
of a result is read. The numbers are those of loops and dual numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float64, int8, int16, int32, int64, uint8

from ..rows.nested.drawing import CHAINS, Nest, drawn
from ..rows.nested.wrappers import WRAPPERS
from .base import Array, Check, Place

CONTRACT: Final = "transforms inside each other, in any order, mean what each of them means"
_PROGRAMS, _DEPTHS = 5, 2
_NEAR, _LARGE = 1e-8, 1e6


def _compared(nest: Nest, call: Callable[..., Any], given: tuple[Array, ...], how: str) -> None:
    got, want = call(*map(calor.asarray, given)), nest.meaning(*given)
    if not np.abs(want).max(initial=0.0) < _LARGE:
        return  # Powers of powers: what is left of the numbers is rounding.
    made, told = got.numpy(), f"{nest.block.text}, {how}"
    assert got.dtype is float64, f"{told}: {got.dtype}, not float64"
    assert made.shape == want.shape, f"{told}: shape {made.shape}, not {want.shape}"
    off = np.abs(made - want) <= _NEAR * (1 + np.abs(want).max(initial=0.0))
    assert off.all(), f"{told}: {made.tolist()}, not {want.tolist()}"


def _run(name: str, place: Place) -> None:
    first = _PROGRAMS * list(WRAPPERS).index(name)
    for number in range(_PROGRAMS):
        around = CHAINS[(first + number) % len(CHAINS)]
        nest = drawn(name, place.number(number), 1 + number % _DEPTHS, around)
        if place.interactive and number % 2:
            _compared(nest, nest.calor, nest.arrays, "op by op")
            continue
        call = calor.jit(nest.calor)
        _compared(nest, call, nest.arrays, "jitted")
        # What a call is compiled for must not be what it was traced with.
        _compared(nest, call, nest.arrays[::-1], "jitted, called with other numbers")


def nested_transforms() -> Iterator[Check]:
    """Yield a check of programs around which each transform is the outermost."""
    for name, (wrapper, _) in WRAPPERS.items():
        yield Check(
            kind="transforms",
            subject=f"nested-in-{name}",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, wrapper),
            dtype=float64,
            dtypes=(float64, int8, uint8, int16, int32, int64),
            features=("control_flow",),
            looks=True,
        )
