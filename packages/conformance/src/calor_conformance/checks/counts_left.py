"""Reductions that leave elements out, with every option: how many are left decides what they give.

Lines lack none to all of their elements, and those left may all be infinite. Corrections lie below,
at and above the number that is left of each line, whole and not; axes are one, several, or all,
from either end; and what is kept, the dtype, and the method meet them. Each line alone, in float64,
says what is due.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32, float64, int64

from .base import Array, Check, Place

CONTRACT: Final = "a reduction counts the elements that are left of each line, in every option"
_TURNS, _NEAR = 24, 2e-4
Rng = np.random.Generator
Meaning = Callable[[Array], Any]


def _variance(line: Array, correction: float) -> float:
    """Return the squares over the count that is left; the count is at least 0."""
    count = max(line.size - correction, 0)
    with np.errstate(all="ignore"):
        return float(np.divide(np.sum((line - line.mean()) ** 2), count)) if line.size else np.nan


def _of_nan(correction: float, line: Array) -> float:
    left = line[~np.isnan(line)]
    return _variance(left, correction) if left.size > correction and left.size else np.nan


def _left(of: Callable[[Array], Any], empty: float, line: Array) -> Any:
    left = line[~np.isnan(line)]
    return of(left) if left.size else empty


def _place(beyond: Callable[[Any, Any], Any], line: Array) -> int:
    """Return the first place of those left that no other one is beyond; 0 if none is left."""
    best = -1
    for at, number in enumerate(line):
        if not np.isnan(number) and (best < 0 or beyond(number, line[best])):
            best = at
    return max(best, 0)


def _corrections(rng: Rng, length: int) -> float:
    """Return a correction about the counts that lines have."""
    whole = int(rng.integers(0, length + 2))
    return float((0, 1, whole, length - 1, length, length + 1, whole + 0.5, 0.5, -1, 1.5)[
        int(rng.integers(10))])  # fmt: skip


def _rooted(of: Meaning, line: Array) -> float:
    return float(np.sqrt(of(line)))


def _drawn(name: str, rng: Rng, length: int) -> tuple[dict[str, Any], Meaning]:
    """Return options of a function, and what it means for a line."""
    if name in ("nanvar", "nanstd", "var", "std"):
        correction = _corrections(rng, length)
        number: Any = correction
        if correction == int(correction) and rng.random() < 0.5:
            number = int(correction)
        variance = partial(_of_nan, correction) if name.startswith("nan") else (
            lambda line: _variance(line, correction))  # fmt: skip
        root = name.endswith("std")
        options = {} if correction == 0 and rng.random() < 0.5 else {"correction": number}
        return options, partial(_rooted, variance) if root else variance
    if name in ("nansum", "nanprod"):
        dtype = (None, float32, float64)[int(rng.integers(3))]
        summed: Any = np.sum if name == "nansum" else np.prod
        options = {} if dtype is None else {"dtype": dtype}
        return options, partial(_left, summed, float(name == "nanprod"))
    if name in ("nanquantile", "nanpercentile", "quantile", "percentile"):
        q = float(rng.choice((0, 0.1, 0.25, 0.5, 0.9, 1)))
        method: Any = str(rng.choice(("linear", "lower", "higher", "midpoint")))
        scale = 100 if "percentile" in name else 1
        options = {"q": q * scale, "method": method}
        if name.startswith("nan"):
            return options, partial(_left, lambda a: np.quantile(a, q, method=method), np.nan)
        return options, lambda line: np.quantile(line, q, method=method)
    meanings: dict[str, Meaning] = {
        "nanmean": partial(_left, np.mean, np.nan), "nanmax": partial(_left, np.max, np.nan),
        "nanmin": partial(_left, np.min, np.nan), "nanmedian": partial(_left, np.median, np.nan),
        "nanargmax": partial(_place, np.greater), "nanargmin": partial(_place, np.less),
        "count_nonzero": np.count_nonzero, "ptp": np.ptp, "median": np.median, "mean": np.mean,
        "logsumexp": lambda a: np.log(np.sum(np.exp(a))), "max": np.max, "min": np.min,
        "argmax": np.argmax, "argmin": np.argmin,
    }  # fmt: skip
    return {}, meanings[name]


_FUNCTIONS: Final = (
    "nanvar", "nanvar", "nanstd", "nanstd", "var", "std", "nansum", "nanprod", "nanmean", "nanmax",
    "nanmin", "nanmedian", "nanquantile", "nanpercentile", "nanargmax", "nanargmin",
    "count_nonzero", "ptp", "median", "mean", "quantile", "percentile", "logsumexp",
    "max", "min", "argmax", "argmin",
)  # fmt: skip
_OF_NUMERICS: Final = frozenset(("ptp", "percentile"))
_ONE_AXIS: Final = ("nanargmax", "nanargmin", "argmax", "argmin")
# What lines with infinities give is plain for those that take no differences.
_INFINITE: Final = (
    "nansum",
    "nanprod",
    "nanmean",
    "nanmax",
    "nanmin",
    "nanmedian",
    "nanargmax",
    "nanargmin",
    "count_nonzero",
    "median",
    "mean",
    "logsumexp",
    "max",
    "min",
    "argmax",
    "argmin",
)


def _lines(
    rng: Rng, shape: tuple[int, ...], axes: tuple[int, ...], lacks: bool, infinite: bool
) -> Array:
    """Return numbers of which lines along axes lack from none to all, or have infinities."""
    made = np.asarray(rng.normal(size=shape) * 3 + 1, np.float32)
    moved = np.moveaxis(made, axes, range(-len(axes), 0))
    for at in np.ndindex(moved.shape[: -len(axes)]):
        line = np.ravel(moved[at]).copy()
        if infinite:
            ends = ((np.inf,), (-np.inf,), (-np.inf, np.inf))[int(rng.integers(3))]
            there = rng.random(line.size) < rng.choice((0.3, 1.0))
            line[there] = rng.choice(ends, int(there.sum()))
        if lacks:
            line[rng.permutation(line.size)[: int(rng.integers(line.size + 1))]] = np.nan
        moved[at] = line.reshape(moved[at].shape)
    return made


def _due(of: Meaning, x: Array, axes: tuple[int, ...]) -> Array:
    moved = np.moveaxis(x.astype(np.float64), axes, range(-len(axes), 0))
    lead = moved.shape[: moved.ndim - len(axes)]
    lines = moved.reshape(*lead, -1)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return np.array([of(lines[at]) for at in np.ndindex(lead)], np.float64).reshape(lead)


def _run_one(name: str, rng: Rng, place: Place) -> None:
    rank = int(rng.integers(1, 4))
    count = 1 if name in _ONE_AXIS else int(rng.integers(1, rank + 1))
    shape = tuple(int(n) for n in rng.integers(1, 5, rank))
    axes = tuple(int(a) for a in np.sort(rng.permutation(rank)[:count]))
    infinite = name in _INFINITE and rng.random() < 0.3
    x = _lines(rng, shape, axes, name.startswith("nan"), infinite)
    options, of = _drawn(name, rng, int(np.prod([shape[a] for a in axes])))
    form: Any = tuple(a - rank * int(rng.integers(2)) for a in axes)
    form = form[0] if count == 1 and (name in _ONE_AXIS or rng.random() < 0.6) else form
    form = None if count == rank and (name not in _ONE_AXIS or rank == 1) and (
        rng.random() < 0.4) else form  # fmt: skip
    keep = bool(rng.integers(2))
    more = [options.pop("q")] if "q" in options else []
    want = _due(of, x, axes)
    want = np.expand_dims(want, axes) if keep else want
    told = f"{name} of {shape} along {form}, {keep=}, {more} {options}, {x.tolist()}"
    double = place.plain.info.supports("mul", float64) and rng.random() < 0.3
    if "dtype" in options and not place.plain.info.supports("mul", options["dtype"]):
        return
    given = calor.asarray(x.astype(np.float64) if double else x)

    def call(t: Any) -> Any:
        return getattr(calor, name)(t, *more, axis=form, keepdims=keep, **options)

    made = calor.jit(call)(given) if rng.random() < 0.2 else place.call(call, given)
    got = made.numpy()
    if "arg" not in name and name != "count_nonzero":
        kind = options.get("dtype", float64 if double else float32)
        assert made.dtype is kind, f"{told}: {made.dtype}, not {kind}"
    assert got.shape == want.shape, f"{told}: shape {got.shape}, not {want.shape}"
    near = np.isclose(got, want, rtol=_NEAR, atol=_NEAR, equal_nan=True)
    assert near.all(), f"{told}: {got.tolist()}, not {want.tolist()}"
    if name in ("nanvar", "var", "nanmean", "nansum") and not infinite:
        _gradient(name, call, given, x, axes, options, told)


def _gradient(
    name: str, call: Any, given: Any, x: Array, axes: tuple[int, ...], options: Any, told: str
) -> None:
    """Compare the gradient of the sum over lines that have a result; others have none of theirs."""
    if "dtype" in options:
        return
    wide = x.astype(np.float64)
    here = ~np.isnan(wide)
    left = here.sum(axes, keepdims=True)
    divisor = left - options.get("correction", 0)
    fits = (divisor > 0) & (left > 0)
    with np.errstate(all="ignore"):
        mean = np.where(here, wide, 0).sum(axes, keepdims=True) / left
        slopes = {"nansum": np.ones_like(wide), "nanmean": np.ones_like(wide) / left}.get(
            name, 2 * (wide - mean) / divisor
        )
    want = np.where(here & fits, slopes, 0)

    def loss(t: Any) -> Any:
        made = call(t)
        return calor.sum(calor.where(calor.isfinite(made), made, 0))

    if not fits.all():
        return
    got = calor.grad(loss)(given).numpy()
    near = np.isclose(got, want, rtol=_NEAR, atol=_NEAR)
    assert near.all(), f"the gradient of {told}: {got.tolist()}, not {want.tolist()}"


def _run(name: str, place: Place) -> None:
    for turn in range(_TURNS):
        if place.tries(turn, 12):
            _run_one(name, np.random.default_rng([place.seed, 507, *name.encode(), turn]), place)


def counts_left() -> Iterator[Check]:
    """Yield a check of each reduction."""
    numerics = find_spec("calor_numerics") is not None
    for name in dict.fromkeys(_FUNCTIONS):
        if not numerics and (name.startswith("nan") or name in _OF_NUMERICS):
            continue
        yield Check(
            kind="functions",
            subject=f"counts-left-{name}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, _drawn),
            op="sum",
            dtypes=(float32, int64),
            looks=True,
        )
