"""Functions of calor-numerics: statistics, orders, histograms, segments, bits, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...language import Array
from ..definitions import over, quantile
from ..drawing import (
    Arguments,
    Rng,
    a_length,
    a_shape,
    an_axis,
    coin,
    counts,
    fitting,
    floats,
    numbers,
    source,
)
from .language import Function, Row


def _axes(rng: Rng, rank: int) -> Any:
    if coin(rng):
        return None if rng.random() < 0.4 else an_axis(rng, rank)
    chosen = rng.permutation(rank)[: int(rng.integers(1, rank + 1))]
    return tuple(int(a) - (rank if coin(rng) else 0) for a in chosen)


def _missing(rng: Rng, shape: tuple[int, ...]) -> Array:
    """Return numbers of which some are NaN, sometimes all of a line."""
    made = floats(rng, shape)
    some = rng.random(shape) < float(rng.choice((0.2, 0.2, 0.9)))
    return made if rng.ask == "smooth" else np.where(some, np.float32(np.nan), made)


def _reduced(draw: Callable[[Rng, tuple[int, ...]], Array]) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        shape = a_shape(rng, 1)
        return [draw(rng, shape)], {"axis": _axes(rng, len(shape)), "keepdims": coin(rng)}

    return drawn


def _one(draw: Callable[[Rng, tuple[int, ...]], Array]) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        shape = a_shape(rng, 1)
        axis = None if rng.random() < 0.3 else an_axis(rng, len(shape))
        return [draw(rng, shape)], {"axis": axis, "keepdims": coin(rng)}

    return drawn


def _corrected(rng: Rng) -> Arguments:
    given, options = _reduced(_missing)(rng)
    return given, {**options, "correction": float(rng.choice((0.0, 1.0, 0.5)))}


def _levels(draw: Callable[[Rng, tuple[int, ...]], Array], unit: float) -> Any:
    def drawn(rng: Rng) -> Arguments:
        (x,), options = _reduced(draw)(rng)
        level: Any = round(float(rng.choice((0, 1, 0.5, rng.random()))), 2) * unit
        if coin(rng):
            level = np.round(rng.random(2), 2).astype(np.float32) * np.float32(unit)
        methods = "linear", "lower", "higher", "midpoint", "nearest"
        return [x, level], {**options, "method": str(rng.choice(methods))}

    return drawn


def _share(unit: float, skips: bool) -> Function:
    # The level is that of the narrow dtype.
    return lambda x, q, **more: quantile(
        x, np.asarray(q, np.float32).astype(float) / unit, skips=skips, **more
    )


def _nan_level(x: Array, *, axis: Any, keepdims: bool) -> Array:
    return quantile(x, 0.5, axis=axis, keepdims=keepdims, skips=True)


def _corrected_nan(of: Function) -> Function:
    def meaning(x: Array, *, correction: float, **options: Any) -> Any:
        return of(x, ddof=correction, **options)

    return meaning


def _nan_place(of: Function) -> Function:
    def meaning(x: Array, *, axis: Any, keepdims: bool) -> Any:
        return over(x, axis, keepdims, lambda line: _first(of, line)).astype(np.int64)

    return meaning


def _first(of: Function, line: Array) -> int:
    kept = np.flatnonzero(~np.isnan(line))
    if not line.size:
        raise ValueError("no element has a place")
    return int(kept[of(line[kept])]) if kept.size else 0


def _running(better: Function) -> Function:
    """Return the place of the best so far: the last of equal ones, and the last NaN."""

    def line(values: Array) -> Array:
        best, made = 0, []
        for n, v in enumerate(values):
            lead = values[best]
            if v != v or (lead == lead and better(v, lead)):
                best = n
            made.append(best)
        return np.array(made, np.int64)

    return lambda x, *, axis: np.apply_along_axis(line, axis, x).astype(np.int64)


def _scanned(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    return [numbers(rng, shape)], {"axis": an_axis(rng, len(shape))}


def _log_sums(x: Array, *, axis: int) -> Any:
    return np.logaddexp.accumulate(x, axis)


def _averaged(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    axis = None if rng.random() < 0.3 else an_axis(rng, len(shape))
    options: dict[str, Any] = {"axis": axis, "keepdims": coin(rng)}
    if rng.random() < 0.7:
        line = shape if axis is None or coin(rng) else (shape[axis],)
        options["weights"] = (rng.random(line) + 0.1).astype(np.float32)
    return [floats(rng, shape)], options


def _joint(rng: Rng) -> Arguments:
    n = a_length(rng) + 3 * (rng.ask != "short")
    x = floats(rng, (int(rng.integers(1, 4)), n))
    options: dict[str, Any] = {"correction": float(rng.choice((0.0, 1.0, 0.5)))}
    if coin(rng):
        options["fweights"] = np.asarray(rng.integers(1, 4, n), np.int32)
    if coin(rng):
        options["aweights"] = (rng.random(n) + 0.2).astype(np.float32)
    return [x], options


def _covariance(x: Array, *, correction: float, fweights: Any = None, aweights: Any = None) -> Any:
    f = np.ones(x.shape[1]) if fweights is None else fweights
    a = np.ones(x.shape[1]) if aweights is None else aweights
    w = f * a
    total = w.sum()
    moved = x - (w * x).sum(1, keepdims=True) / total
    lost = correction * ((w * a).sum() / total if aweights is not None else 1)
    made = np.einsum("in,n,jn->ij", moved, w, moved) / max(total - lost, 0)
    return made.squeeze()


def _areas(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    axis = an_axis(rng, len(shape))
    y = floats(rng, shape)
    if coin(rng):
        return [y], {"axis": axis, "dx": 0.5}
    steps = rng.random(shape[axis] if coin(rng) else shape) + 0.1
    return [y, np.cumsum(steps, -1 if steps.ndim == 1 else axis).astype(np.float32)], {"axis": axis}


def _area(y: Array, x: Any = None, *, dx: float = 1.0, axis: int, running: bool = False) -> Any:
    y = np.moveaxis(y, axis, -1)
    if x is None:
        steps: Any = dx
    else:
        steps = np.diff(x if x.ndim == 1 else np.moveaxis(x, axis, -1), axis=-1)
    parts = steps * (y[..., 1:] + y[..., :-1]) / 2
    return np.moveaxis(np.cumsum(parts, -1), -1, axis) if running else parts.sum(-1)


def _sloped(rng: Rng) -> Arguments:
    shape = tuple(int(n) for n in rng.integers(3, 7, int(rng.integers(1, 3))))
    axis = an_axis(rng, len(shape))
    spacing: Any = 0.5
    if coin(rng):
        spacing = np.cumsum(rng.random(shape[axis]) + 0.2).astype(np.float32)
    return [floats(rng, shape), spacing], {"axis": axis, "edge_order": int(rng.integers(1, 3))}


def _between(rng: Rng) -> Arguments:
    n = max(a_length(rng), 1)
    xp = np.cumsum(rng.random(n) + 0.1).astype(np.float32) - 2
    x = np.where(rng.random((5,)) < 0.3, rng.choice(xp, 5), rng.normal(size=5) * 3)
    ends = {name: 7.5 for name in ("left", "right") if coin(rng)}
    return [x.astype(np.float32), xp, floats(rng, (n,))], ends


def _histogram(rng: Rng) -> Arguments:
    x = floats(rng, a_shape(rng))
    options: dict[str, Any] = {"density": coin(rng)}
    if coin(rng):
        options["weights"] = np.asarray(rng.integers(1, 5, x.shape), np.float32)
    if coin(rng):
        return [x, np.unique(np.round(floats(source_of(rng), (6,))))[:5]], options
    if coin(rng):
        options["range"] = (-2.0, 3.0)
    return [x, int(rng.choice((1, 4, 5, 8)))], options


def source_of(rng: Rng) -> Rng:
    """Return a source of common numbers beside one that is asked for others."""
    return source([int(rng.integers(2**31))])


def _counted(x: Array, bins: Any, **options: Any) -> Any:
    made, edges = np.histogram(x, bins, **options)
    return (made.astype(float) if options.get("density") or "weights" in options else made), edges


def _call_histogram(package: Any, x: Any, bins: Any, **options: Any) -> Any:
    return package.histogram(x, bins, **options)


def _edges(rng: Rng) -> Arguments:
    given, options = _histogram(rng)
    return given, {k: v for k, v in options.items() if k == "range"}


def _binned(rng: Rng) -> Arguments:
    n = a_length(rng)
    line = np.sort(np.round(floats(source_of(rng), (n,))))
    return [floats(rng, a_shape(rng)), line], {"right": coin(rng)}


def _segments(numbers: Any) -> Callable[[Rng], Arguments]:
    return lambda rng: _in_segments(rng, numbers)


def _in_segments(rng: Rng, numbers: Any) -> Arguments:
    shape = a_shape(rng, 1)
    axis = an_axis(rng, len(shape))
    size = int(rng.integers(1, 6))
    ids = rng.integers(0, size, shape[axis])
    return [numbers(rng, shape), ids, size], {"axis": axis}


def _segment(of: Function, empty: float) -> Function:
    def meaning(x: Array, ids: Array, size: int, *, axis: int) -> Any:
        rows = np.moveaxis(x, axis, 0)
        wide = np.moveaxis(x, axis, 0).astype(x.dtype)
        made = []
        for n in range(size):
            chosen = wide[ids == n]
            filled: Any = empty
            if not len(chosen) and np.isinf(empty) and x.dtype.kind in "iu":
                kind = np.iinfo(x.dtype)
                filled = kind.min if empty < 0 else kind.max
            made.append(of(chosen, axis=0) if len(chosen) else np.full(rows.shape[1:], filled))
        out = float if x.dtype.kind == "f" else x.dtype
        return np.moveaxis(np.stack(made).astype(out), 0, axis)

    return meaning


_WIDTHS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def _bits(rng: Rng, shape: tuple[int, ...], kinds: Any = _WIDTHS) -> Array:
    """Return integers of any width: their limits, all bits set, and any bits."""
    kind = np.dtype(str(rng.choice(kinds)))
    raw = rng.integers(0, 2**64, shape, np.uint64, endpoint=False)
    ends = np.array([np.iinfo(kind).min, np.iinfo(kind).max, 0, 1], kind)
    if kind.kind == "i":
        ends = np.append(ends, np.array([-1, np.iinfo(kind).min + 1], kind))
    anything = np.asarray(raw).astype(kind)
    return np.asarray(np.where(rng.random(shape) < 0.5, rng.choice(ends, shape), anything), kind)


def _bit_counts(x: Array) -> Any:
    return np.bitwise_count(x).astype(np.uint8)


def _of(numbers: Any) -> Callable[[Rng], Arguments]:
    return lambda rng: ([numbers(rng, a_shape(rng))], {})


def _two(numbers: Any) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        shape = a_shape(rng)
        given = [numbers(rng, shape), numbers(rng, fitting(rng, shape))]
        return (given if coin(rng) else given[::-1]), {}

    return drawn


def _divisors(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    kind = str(rng.choice(("int32", "uint8", "int64")))
    numbers = [np.asarray(rng.integers(0, 100, s), kind) for s in (shape, fitting(rng, shape))]
    if kind != "uint8":
        numbers = [np.where(rng.random(a.shape) < 0.4, -a, a).astype(kind) for a in numbers]
    return numbers, {}


def _scaled(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    return [floats(rng, shape), np.asarray(rng.integers(-9, 10, fitting(rng, shape)), np.int32)], {}


def _powered(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    return [np.abs(floats(rng, shape)) + np.float32(0.1), rng.integers(-3, 4, shape)], {}


def _kth(rng: Rng) -> tuple[Array, int, int]:
    shape = a_shape(rng, 1)
    axis = an_axis(rng, len(shape))
    return numbers(rng, shape), int(rng.integers(0, max(shape[axis], 1))), axis


def _partitioned(rng: Rng) -> Arguments:
    x, kth, axis = _kth(rng)
    return [x, kth], {"axis": axis}


def _split_at(x: Any, kth: int, axis: int, xp: Any = np) -> Any:
    """Return what a partition says: the element, and both sides in their order."""
    n = x.shape[axis]
    low, high = xp.take(x, np.arange(kth), axis=axis), xp.take(x, np.arange(kth, n), axis=axis)
    return xp.sort(low, axis=axis), xp.take(x, np.array([kth]), axis=axis), xp.sort(high, axis=axis)


def _call_partition(package: Any, x: Any, kth: int, *, axis: int) -> Any:
    import calor

    return _split_at(package.partition(x, kth, axis=axis), kth, axis, calor)


def _call_argpartition(package: Any, x: Any, kth: int, *, axis: int) -> Any:
    import calor

    places = package.argpartition(x, kth, axis=axis)
    return _split_at(calor.take_along_axis(x, places, axis=axis), kth, axis, calor)


def _partition(x: Array, kth: int, *, axis: int) -> Any:
    if not x.size:
        raise ValueError("no element is the kth")
    return _split_at(np.sort(x, axis), kth, axis)


def _kthvalue(rng: Rng) -> Arguments:
    x, kth, axis = _kth(rng)
    return [x, kth + 1], {"axis": axis, "keepdims": coin(rng)}


def _call_kthvalue(package: Any, x: Any, k: int, *, axis: int, keepdims: bool) -> Any:
    import calor

    _, places = package.kthvalue(x, k, axis=axis, keepdims=True)
    found = calor.take_along_axis(x, places, axis=axis)
    return package.kthvalue(x, k, axis=axis, keepdims=keepdims).values, found


def _kthvalue_meaning(x: Array, k: int, *, axis: int, keepdims: bool) -> Any:
    if not x.size:
        raise ValueError("no element is the kth")
    made = np.take(np.sort(x, axis), [k - 1], axis)
    return made if keepdims else made.squeeze(axis), made


def _moded(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    line = counts(rng, shape) % 4
    return [line if coin(rng) else line.astype(np.float32)], {
        "axis": an_axis(rng, len(shape)), "keepdims": coin(rng),
    }  # fmt: skip


def _mode(x: Array, *, axis: int, keepdims: bool) -> Any:
    if not x.size:
        raise ValueError("no element is the most frequent")

    def line(values: Array) -> Any:
        found, times = np.unique(values, return_counts=True)
        return found[np.argmax(times)]

    made = np.apply_along_axis(line, axis, x)
    return np.expand_dims(made, axis) if keepdims else made


def _middle(skips: bool) -> Function:
    """Return the place of the lower median: in a stable order, or the first NaN."""

    def line(values: Array) -> int:
        lost = np.isnan(values)
        if not values.size:
            raise ValueError("no element is the median")
        if lost.any() and (not skips or lost.all()):
            return int(np.argmax(lost))
        return int(np.argsort(values, kind="stable")[(np.sum(~lost) - 1) // 2])

    return lambda x, *, axis, keepdims: over(x, axis, keepdims, line).astype(np.int64)


def _keys(rng: Rng) -> Arguments:
    shape = (int(rng.integers(1, 4)), *a_shape(rng, 1, 2))
    axis = an_axis(rng, len(shape) - 1)
    return [np.round(floats(rng, shape) / 2)], {"axis": axis}


ROWS: Final[list[Row]] = [
    *(Row(name, _reduced(_missing), getattr(np, name), moves=True, smooth=True)
      for name in ("nansum", "nanprod", "nanmean")),
    *(Row(name, _reduced(_missing), getattr(np, name)) for name in ("nanmax", "nanmin")),
    Row("nanvar", _corrected, _corrected_nan(np.nanvar), moves=True, smooth=True),
    Row("nanstd", _corrected, _corrected_nan(np.nanstd), moves=True),
    Row("nanargmax", _one(_missing), _nan_place(np.argmax)),
    Row("nanargmin", _one(_missing), _nan_place(np.argmin)),
    Row("nanmedian", _reduced(_missing), _nan_level),
    Row("nanquantile", _levels(_missing, 1), _share(1, True)),
    Row("nanpercentile", _levels(_missing, 100), _share(100, True)),
    Row("percentile", _levels(floats, 100), _share(100, False)),
    Row("ptp", _reduced(floats), np.ptp),
    Row("average", _averaged, np.average, moves=True, smooth=True),
    Row("cov", _joint, _covariance, moves=True, smooth=True),
    Row("corrcoef", lambda rng: ([floats(rng, (3, a_length(rng) + 3))], {}), np.corrcoef,
        moves=True, without="equal"),
    Row("trapezoid", _areas, _area, moves=True, smooth=True),
    Row("cumulative_trapezoid", _areas, lambda *x, **more: _area(*x, **more, running=True),
        moves=True, smooth=True),
    Row("gradient", _sloped, np.gradient, moves=True, smooth=True),
    Row("interp", _between, np.interp, without="nan infinite"),
    Row("histogram", _histogram, _counted, call=_call_histogram, without="nan infinite"),
    Row("histogram_bin_edges", _edges, np.histogram_bin_edges, without="nan infinite"),
    Row("digitize", _binned, np.digitize),
    Row("segment_sum", _segments(numbers), _segment(np.sum, 0), moves=True, smooth=True),
    Row("segment_prod", _segments(numbers), _segment(np.prod, 1), moves=True, smooth=True),
    Row("segment_mean", _segments(floats), _segment(np.mean, np.nan), moves=True, smooth=True),
    Row("segment_max", _segments(numbers), _segment(np.max, -np.inf)),
    Row("segment_min", _segments(numbers), _segment(np.min, np.inf)),
    Row("bitwise_count", _of(_bits), _bit_counts),
    Row("gcd", _divisors, np.gcd), Row("lcm", _divisors, np.lcm),
    *(Row(name, _of(floats), getattr(np, name)) for name in (
        "cbrt", "deg2rad", "rad2deg", "isneginf", "isposinf", "modf", "angle", "isreal",
        "iscomplex")),
    Row("frexp", _of(floats), np.frexp, without="nan infinite"),
    Row("fmax", _two(floats), np.fmax), Row("fmin", _two(floats), np.fmin),
    Row("ldexp", _scaled, np.ldexp), Row("float_power", _powered, np.float_power),
    Row("partition", _partitioned, _partition, call=_call_partition),
    Row("argpartition", _partitioned, _partition, call=_call_argpartition),
    Row("kthvalue", _kthvalue, _kthvalue_meaning, call=_call_kthvalue),
    Row("mode", _moded, _mode, call=lambda p, x, **more: p.mode(x, **more).values),
    Row("argmedian", _one(floats), _middle(False)),
    Row("nanargmedian", _one(_missing), _middle(True)),
    Row("cumulative_argmax", _scanned, _running(lambda v, lead: v >= lead)),
    Row("cumulative_argmin", _scanned, _running(lambda v, lead: v <= lead)),
    Row("cumulative_logsumexp", lambda rng: ([floats(rng, (n := a_shape(rng, 1)))],
        {"axis": an_axis(rng, len(n))}), _log_sums, smooth=True),
    Row("lexsort", _keys, np.lexsort),
]  # fmt: skip
