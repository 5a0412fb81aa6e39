"""Gradients at kinks, ties, zeros and infinities, and operands that the rules of ops refuse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType, as_dtype
from calor.ops.base import find

from ..rows.judging import put
from ..rows.tables.points import POINTS, Point
from ..rows.tables.refusals import REFUSALS, Refusal
from .base import Check, Place
from .errors import raised


def points() -> Iterator[Check]:
    """Yield checks of gradients that are defined by a convention."""
    seen: dict[str, int] = {}
    for p in POINTS:
        number = seen[p.op] = seen.get(p.op, 0) + 1
        dtype = as_dtype(p.dtype)
        yield Check(
            kind="gradient-points",
            subject=f"{p.op}-{number}",
            tier="training",
            contract="the gradient at this point follows the convention that the row states",
            looks=True,
            run=_at(p),
            text=partial(repr, p),
            op=p.op,
            dtype=dtype,
            dtypes=_kinds(p),
        )


def _kinds(p: Point) -> tuple[DType, ...]:
    arrays = [np.asarray(v) for v in p.operands]
    kinds = [p.dtype if a.dtype.kind in "fc" else a.dtype for a in arrays]
    return tuple(dict.fromkeys(map(as_dtype, kinds)))


def _at(p: Point) -> Any:
    def run(place: Place) -> None:
        tensors = [_tensor(v, p.dtype) for v in p.operands]
        attributes = {
            name.removesuffix("_"): as_dtype(v) if name == "dtype_" else v
            for name, v in p.attributes.items()
        }
        y, pull = calor.vjp(lambda *given: find(p.op)(*given, **attributes), *tensors)
        cotangent = np.ones(y.shape) if p.cotangent is None else np.asarray(p.cotangent)
        found = pull(_tensor(cotangent.astype(y.dtype.numpy), y.dtype.name))
        for got, want in zip(found, p.gradients, strict=True):
            if want is None:
                assert got is None or not np.any(got.numpy()), f"there is no gradient, got {got}"
            else:
                np.testing.assert_allclose(got.numpy(), want, rtol=4e-7, atol=1e-300)

    return run


def _tensor(value: Any, dtype: str) -> Any:
    array = np.asarray(value)
    wanted = as_dtype(dtype).numpy if array.dtype.kind in "fc" else array.dtype
    return calor.asarray(array.astype(wanted))


def refusals() -> Iterator[Check]:
    """Yield checks of operands and attributes that an op refuses with a typed error."""
    seen: dict[str, int] = {}
    for refusal in REFUSALS:
        number = seen[refusal.op] = seen.get(refusal.op, 0) + 1
        yield Check(
            kind="refusals",
            subject=f"{refusal.op}-{number}",
            tier="full",
            contract="bad operands are refused when the op is recorded, by a typed error",
            run=_refused(refusal),
            text=partial(repr, refusal),
            op=refusal.op,
            dtypes=tuple(dict.fromkeys(d.type_for(calor.float32) for d in refusal.inputs)),
        )


def _refused(refusal: Refusal) -> Any:
    def run(place: Place) -> None:
        rng = np.random.default_rng(place.seed)
        arrays = [
            np.asarray(d.draw(rng, d.type_for(calor.float32), d.shape)) for d in refusal.inputs
        ]
        tensors = put(arrays)
        error = raised(lambda: refusal.call(*tensors))
        assert isinstance(error, refusal.error), f"{type(error).__name__}: {error}"
        assert re.search(refusal.match, str(error)), f"{error} does not say {refusal.match!r}"

    return run
