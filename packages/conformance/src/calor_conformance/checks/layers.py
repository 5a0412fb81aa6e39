"""Functions of installed packages beside NumPy, at common operands and at all that is asked.

Statistics, special functions, losses and norms run on a device as programs of many ops. Their
meanings are NumPy's, or definitions in float64 here, and so are their derivatives' differences.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, int32, int64
from calor.errors import ShapeError

from ..rows.functions.comparing import (
    Call,
    compare,
    narrow,
    nothing,
    parts,
    quiet,
    results,
    slack,
    tensors,
    widened,
)
from ..rows.functions.drawing import ASKS, source
from ..rows.functions.layers import installed
from ..rows.functions.layers.language import Row
from .base import Array, Check, Place

CONTRACT: Final = "a function of a package has its meaning at every argument, and its derivative"
# Common numbers are drawn this often, and more often where little else is asked.
_TURNS = 1
_STEP: Final = 1e-4


def _call(package: Any, row: Row) -> Any:
    return getattr(package, row.name) if row.call is None else partial(row.call, package)


def _turn(package: Any, row: Row, seed: list[int], ask: str) -> None:
    try:
        given, options = row.draw(source(seed, ask))
        with quiet():
            wide = widened(list(given))
            more = {k: widened(v) for k, v in options.items()}
            wants = parts(row.meaning(*wide, **more))
            slacks = slack(row.meaning, given, more, wants) if row.moves or ask == "large" else None
    except (ValueError, IndexError, ZeroDivisionError):
        if ask == "short":
            return  # NumPy, too, has no result of none.
        raise
    what = Call(row.label, given, options, f", asked {ask or 'nothing'}")
    kept = {k: tensors(v) for k, v in options.items()}
    try:
        got = results(_call(package, row)(*map(tensors, given), **kept))
    except ShapeError:
        if ask == "short" and nothing(wants):
            return
        raise
    assert len(got) == len(wants), f"{what}: {len(got)} results, not {len(wants)}"
    for n, (a, b) in enumerate(zip(got, wants, strict=True)):
        compare(a, b, what, row.near, slacks[n] if slacks else 0.0)


def _run(name: str, row: Row, place: Place) -> None:
    package, seed = import_module(name), [place.seed, crc32(f"{name}.{row.label}".encode())]
    asked = [a for a in ASKS if a not in row.without.split()]
    for turn, ask in enumerate([*[""] * max(_TURNS, row.least - len(asked)), *asked]):
        _turn(package, row, [*seed, turn], ask)
    if row.smooth:
        _slope(package, row, [*seed, len(ASKS)])


def _slope(package: Any, row: Row, seed: list[int]) -> None:
    """Compare a derivative along a direction with differences of the meaning."""
    rng = source(seed, "smooth")
    given, options = row.draw(rng)
    places = [n for n, one in enumerate(given) if narrow(one)]
    ways = {n: rng.normal(size=given[n].shape) for n in places}
    more = {k: widened(v) for k, v in options.items()}
    weights: list[Array] = []

    def value(step: float) -> float:
        moved = [
            one.astype(np.float64) + step * ways[n] if n in ways else one
            for n, one in enumerate(given)
        ]
        made = [a for a in parts(row.meaning(*moved, **more)) if a.dtype.kind == "f"]
        if not weights:
            weights.extend(np.cos(np.arange(a.size) + 1.0).reshape(a.shape) for a in made)
        return float(sum(np.sum(a * w) for a, w in zip(made, weights, strict=True)))

    with quiet():
        value(0.0)
        wide, fine = ((value(h) - value(-h)) / (2 * h) for h in (_STEP, _STEP / 4))
    if not np.isfinite(fine) or abs(wide - fine) > 1e-3 * max(abs(fine), 1):
        return  # There is an edge at the point.
    put = [tensors(one) for one in given]
    kept = {k: tensors(v) for k, v in options.items()}

    def loss(*moving: Any) -> Any:
        arguments = list(put)
        for n, one in zip(places, moving, strict=True):
            arguments[n] = one
        made = calor.tree.leaves(_call(package, row)(*arguments, **kept))
        sums = [t for t in made if isinstance(t, calor.Tensor) and t.dtype.is_inexact]
        return sum(
            calor.sum(t * calor.asarray(w.astype(np.float32)))
            for t, w in zip(sums, weights, strict=True)
        )

    _, pull = calor.vjp(loss, *(put[n] for n in places))
    found = [g.numpy() for g in pull(calor.asarray(np.float32(1.0)))]
    terms = [g.astype(np.float64) * ways[n] for g, n in zip(found, places, strict=True)]
    got, size = float(sum(t.sum() for t in terms)), float(sum(np.abs(t).sum() for t in terms))
    what = Call(row.label, given, options)
    assert abs(got - fine) <= 2e-3 * max(size, abs(fine), 1e-3), (
        f"the derivative of {what}: {got}, not {fine}"
    )


def layers() -> Iterator[Check]:
    """Yield a check of each way to call each function of the packages that are installed."""
    for name, rows in installed().items():
        for row in rows:
            yield Check(
                kind="functions",
                subject=f"{name}.{row.label}",
                tier="full",
                contract=CONTRACT,
                run=partial(_run, name, row),
                text=partial(inspect.getsource, row.draw),
                dtypes=(float32, int32, int64, bool_),
                looks=True,
            )
