"""Functions of several axes with a grid of its own on each: other numbers, widths and ends.

A grid that is taken from another axis, or from the first alone, fits where all have one number and
one width. So axes have different lengths, and each its own number of points, uneven steps, range or
reach; some have a step and some points. NumPy says what they give, and functions that are linear
have the gradient of their meaning.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bool_, float32, int64

from .base import Array, Check, Place

CONTRACT: Final = "each axis has its own grid, whatever the others have"
_TURNS, _NEAR = 10, 2e-4
Rng = np.random.Generator


def _shape(rng: Rng, least: int = 1, low: int = 3) -> tuple[int, ...]:
    """Return different lengths."""
    return tuple(int(n) for n in rng.permutation(range(low, low + 4))[: rng.integers(least, 4)])


def _points(rng: Rng, count: int) -> Array:
    """Return points in order, unevenly, rising or falling."""
    made = np.cumsum(rng.uniform(0.3, 2.0, count)) + rng.uniform(-3, 3)
    return np.asarray(made if rng.random() < 0.8 else made[::-1], np.float32)


def _given(x: Any) -> Any:
    """Return arrays as tensors, within lists too."""
    if isinstance(x, list | tuple):
        return type(x)(map(_given, x))
    return calor.asarray(x) if isinstance(x, np.ndarray) else x


def _near(got: Any, want: Any, told: str) -> None:
    made, want = got.numpy(), np.asarray(want)
    assert made.shape == want.shape, f"{told}: shape {made.shape}, not {want.shape}"
    within = _NEAR * (1 + np.abs(want).max(initial=0.0))
    near = np.abs(made - want).max(initial=0.0) <= within
    assert near, f"{told}: {made.tolist()}, not {want.tolist()}"


def _linear(
    call: Callable[[Any], Any], meaning: Callable[[Array], Any], x: Array, rng: Rng, told: str
) -> None:
    """Compare a function that is linear in x, and its gradient by x."""
    made, want = call(calor.asarray(x)), meaning(x.astype(np.float64))
    several = isinstance(made, list | tuple)
    founds, wants = (made, want) if several else ([made], [want])
    assert len(founds) == len(wants), f"{told}: {len(founds)} results, not {len(wants)}"
    for k, (a, b) in enumerate(zip(founds, wants, strict=True)):
        _near(a, b, f"result {k} of {told}")
    weights = [rng.integers(-3, 4, np.shape(w)).astype(np.float32) for w in wants]

    def total(t: Any) -> Any:
        parts = call(t)
        pairs = zip(weights, parts if several else [parts], strict=True)
        return sum(calor.sum(calor.asarray(w) * p) for w, p in pairs)

    def meant(a: Array) -> float:
        parts = meaning(a)
        pairs = zip(weights, parts if several else [parts], strict=True)
        return float(sum(np.sum(w * p) for w, p in pairs))

    slopes, zero = np.zeros(x.shape), meant(np.zeros(x.shape))
    for at in np.ndindex(x.shape):
        one = np.zeros(x.shape)
        one[at] = 1
        slopes[at] = meant(one) - zero
    _near(calor.grad(total)(calor.asarray(x)), slopes, f"the gradient of {told}")


def _differences(rng: Rng) -> None:
    """Derivatives on a grid: each axis has a step or points, at either order of the ends."""
    shape = _shape(rng)
    x = np.asarray(rng.normal(size=shape), np.float32)
    count = int(rng.integers(1, len(shape) + 1))
    axes = [int(a) - len(shape) * int(rng.integers(2)) for a in rng.permutation(len(shape))[:count]]
    order = int(rng.integers(1, 3))
    form = int(rng.integers(3))
    spacing: list[Any] = [
        _points(rng, shape[a]) if rng.random() < 0.6 else float(rng.uniform(0.5, 2)) for a in axes
    ]
    if form == 0:
        spacing = [float(rng.uniform(0.5, 2))]
    axis: Any = axes[0] if count == 1 else tuple(axes)
    if form == 2 and count == len(shape):
        axis, axes = None, list(range(count))
        spacing = [_points(rng, n) for n in shape]
    told = f"gradient of {shape}, {spacing}, {axis=}, {order=}"
    plain: Any = [s.astype(np.float64) if isinstance(s, np.ndarray) else s for s in spacing]
    meaning: Any = np.gradient
    # NumPy gives an array alone for one axis.
    _linear(
        lambda t: calor.gradient(t, *_given(spacing), axis=axis, edge_order=order),
        lambda a: meaning(a, *plain, axis=axis, edge_order=order), x, rng, told,
    )  # fmt: skip


def _counted(rng: Rng) -> None:
    """Histograms of several axes: numbers of bins, edges and ranges of their own."""
    axes, samples = int(rng.integers(1, 4)), int(rng.integers(1, 30))
    # Samples lie between edges, which are eighths.
    x = (rng.integers(-24, 25, (samples, axes)) / 8 + 1 / 16).astype(np.float32)
    bins: list[Any] = []
    ranges: list[Any] = []
    for _ in range(axes):
        if rng.random() < 0.5:
            edges = np.unique(rng.integers(-20, 21, int(rng.integers(3, 7)))) / 8
            edges = edges if len(edges) > 1 else np.array([-1.0, 2.0])
            bins.append(edges.astype(np.float32))
            ranges.append(None)
        else:
            bins.append(int(rng.choice((1, 2, 4, 5))))
            low = int(rng.integers(-24, 1)) / 8
            ranges.append((low, low + bins[-1] * int(rng.integers(1, 8)) / 8))
    weights = rng.integers(1, 5, samples).astype(np.float32) if rng.random() < 0.5 else None
    density = bool(rng.integers(2))
    options: dict[str, Any] = {"range": ranges, "density": density}
    plain = [b.astype(np.float64) if isinstance(b, np.ndarray) else b for b in bins]
    with np.errstate(all="ignore"):
        want, edges_due = np.histogramdd(
            x.astype(np.float64), bins=plain, weights=weights, **options
        )
    if density and not np.isfinite(want).all():
        return
    made = calor.histogramdd(calor.asarray(x), _given(bins), weights=_given(weights), **options)
    told = f"histogramdd of {x.tolist()}, {bins}, {options}, weights {weights}"
    _near(made[0], want, told)
    for k, (got, due) in enumerate(zip(made[1], edges_due, strict=True)):
        _near(got, due, f"edges {k} of {told}")


def _meshes(rng: Rng) -> None:
    """Grids of points: as many axes as arrays, in both orders of the first two."""
    arrays = [_points(rng, int(n)) for n in rng.integers(1, 5, int(rng.integers(1, 5)))]
    indexing: Any = "ij" if rng.random() < 0.5 else "xy"
    told = f"meshgrid of {[len(a) for a in arrays]}, {indexing}"
    made = calor.meshgrid(*map(calor.asarray, arrays), indexing=indexing)
    wants = np.meshgrid(*arrays, indexing=indexing)
    assert len(made) == len(wants), f"{told}: {len(made)} results"
    for k, (got, want) in enumerate(zip(made, wants, strict=True)):
        _near(got, want, f"result {k} of {told}")


def _areas(rng: Rng) -> None:
    """Integrals along an axis whose points are a line, or an array of the integrand's shape."""
    shape = _shape(rng, low=2)
    y = np.asarray(rng.normal(size=shape), np.float32)
    axis = int(rng.integers(-len(shape), len(shape)))
    line = _points(rng, shape[axis])
    if rng.random() < 0.5:
        whole = np.stack([_points(rng, shape[axis]) for _ in range(y.size // shape[axis])])
        rest = tuple(n for k, n in enumerate(shape) if k != axis % len(shape))
        line = np.moveaxis(whole.reshape(*rest, shape[axis]), -1, axis)
    wide = line.astype(np.float64)
    told = f"of {shape} at {line.tolist()} along {axis}"

    def sums(a: Array) -> Array:
        moved = np.moveaxis(a, axis, -1)
        at = wide if wide.ndim == 1 else np.moveaxis(wide, axis, -1)
        parts = (moved[..., 1:] + moved[..., :-1]) / 2 * np.diff(at, axis=-1)
        return np.moveaxis(np.cumsum(parts, -1), -1, axis)

    _linear(lambda t: calor.trapezoid(t, calor.asarray(line), axis=axis),
            lambda a: np.take(sums(a), -1, axis), y, rng, f"trapezoid {told}")  # fmt: skip
    _linear(lambda t: calor.cumulative_trapezoid(t, calor.asarray(line), axis=axis), sums, y, rng,
            f"cumulative_trapezoid {told}")  # fmt: skip


def _reaches(rng: Rng) -> None:
    """Pads with other widths at every end in each mode, and repetitions of each axis."""
    shape = _shape(rng)
    x = np.asarray(rng.normal(size=shape), np.float32)
    mode: Any = str(rng.choice(("constant", "reflect", "edge", "wrap", "symmetric")))
    widths = tuple((int(a), int(b)) for a, b in rng.integers(0, 3, (len(shape), 2)))
    _linear(lambda t: calor.pad(t, widths, mode=mode), lambda a: np.pad(a, widths, mode=mode), x,
            rng, f"pad of {shape} by {widths}, {mode}")  # fmt: skip
    by = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(1, 4))))
    _linear(lambda t: calor.tile(t, by), lambda a: np.tile(a, by), x, rng, f"tile of {shape} {by}")


_FORMS: Final[dict[str, tuple[bool, Callable[[Rng], None]]]] = {
    "differences": (True, _differences), "histograms": (True, _counted), "meshes": (False, _meshes),
    "areas": (True, _areas), "reaches": (False, _reaches),
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    number = list(_FORMS).index(name)
    for turn in range(_TURNS):
        if place.tries(turn, 10):
            _FORMS[name][1](np.random.default_rng([place.seed, 508, number, turn]))


def grids_of_axes() -> Iterator[Check]:
    """Yield a check of each family of functions."""
    numerics = find_spec("calor_numerics") is not None
    for name, (needs, form) in _FORMS.items():
        if needs and not numerics:
            continue
        yield Check(
            kind="functions",
            subject=f"grids-of-{name}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, form),
            op="slice",
            dtypes=(float32, int64, bool_),
            looks=True,
        )
