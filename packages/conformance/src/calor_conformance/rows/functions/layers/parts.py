"""Functions of calor-numerics that join, write and spread: parts of numbers, grids, histograms."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np

from ...language import Array
from ..drawing import Arguments, Rng, a_length, a_shape, an_axis, coin, fitting, floats, whole
from .language import Row

_SAME: Final = "nan infinite zeros ties equal large small limits short"


def _pair(rng: Rng) -> Arguments:
    shape = a_shape(rng)
    given = [floats(rng, shape), floats(rng, fitting(rng, shape))]
    return (given if coin(rng) else given[::-1]), {}


def _halves(name: str) -> Any:
    def call(package: Any, x: Any, y: Any) -> Any:
        import calor

        made = getattr(package, name)(x, y)
        return calor.real(made), calor.imag(made)

    return call


def _polar(x: Array, angle: Array) -> Any:
    return x * np.cos(angle), x * np.sin(angle)


def _powers(rng: Rng) -> Arguments:
    ends = [round(float(v), 2) for v in rng.uniform(-2, 2, 2)]
    options: dict[str, Any] = {"num": int(rng.integers(0, 7)), "endpoint": coin(rng)}
    if coin(rng):
        options["base"] = float(rng.choice((2.0, 10.0, 1.5)))
    return ends, options


def _ratios(rng: Rng) -> Arguments:
    ends = [round(float(v), 2) for v in rng.uniform(0.1, 9, 2)]
    ends = [-v for v in ends] if coin(rng) else ends
    return ends, {"num": int(rng.integers(1, 7)), "endpoint": coin(rng)}


def _cells(rng: Rng) -> Arguments:
    n, wide = a_length(rng) + 1, int(rng.integers(1, 4))
    x = rng.normal(size=(n, wide)).astype(np.float32)
    options: dict[str, Any] = {"density": coin(rng)}
    if coin(rng):
        options["weights"] = np.asarray(rng.integers(1, 5, n), np.float32)
    bins: Any = [int(rng.integers(1, 5)) for _ in range(wide)]
    kind = int(rng.integers(3))
    if kind == 1:
        bins = bins[0]
    if kind == 2:
        bins = [np.sort(rng.normal(size=4)).astype(np.float32) for _ in range(wide)]
    elif coin(rng):
        options["range"] = [(-1.5, 1.0 + k) for k in range(wide)]
    return [x, bins], options


def _histogram(x: Array, bins: Any, **options: Any) -> Any:
    made, edges = np.histogramdd(x, bins, **options)
    return (made, *edges)


def _edges_too(package: Any, x: Any, bins: Any, **options: Any) -> Any:
    import calor

    made, edges = package.histogramdd(x, bins, **options)
    # Counts are whole numbers where nothing is weighed.
    return (calor.astype(made, calor.float32), *edges)


def _along(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    return [floats(rng, shape)], {"axis": an_axis(rng, len(shape)), "kind": int(rng.integers(3))}


def _lines(x: Array, *, axis: int, kind: int) -> Any:
    of: list[Any] = [
        lambda v: v.sum() * 2,
        lambda v: v[::-1] - v[0],
        lambda v: np.outer(v, v)[:2],
    ]
    return np.apply_along_axis(of[kind], axis, x)


def _of_lines(package: Any, x: Any, *, axis: int, kind: int) -> Any:
    import calor

    of: list[Any] = [
        lambda v: calor.sum(v) * 2,
        lambda v: calor.flip(v) - v[0],
        lambda v: (v[:, None] * v[None, :])[:2],
    ]
    return package.apply_along_axis(of[kind], axis, x)


def _vectors(rng: Rng) -> Arguments:
    kind = floats if coin(rng) else whole
    count = int(rng.integers(1, 4))
    return [kind(rng, (int(rng.integers(1, 4)),)) for _ in range(count)], {}


def _products(*lines: Array) -> Any:
    made = np.array(list(itertools.product(*lines)))
    return made[:, 0] if len(lines) == 1 else made


def _written(rng: Rng) -> Arguments:
    shape = a_shape(rng, 1)
    size = int(np.prod(shape))
    places = rng.permutation(size)[: int(rng.integers(1, size + 1))]
    if len(places) > 1 and len(places) % 2 == 0 and coin(rng):
        places = places.reshape(2, -1)
    update = str(rng.choice(("assign", "add")))
    if update == "add" and coin(rng):
        places = places * 0 + places.reshape(-1)[0]
    places = np.where(rng.random(places.shape) < 0.3, places - size, places)
    values = floats(rng, places.shape)
    return [floats(rng, shape), places.astype(np.int64), values], {"update": update}


def _put(x: Array, places: Array, values: Array, *, update: str) -> Any:
    made = x.reshape(-1).copy()
    if update == "add":
        np.add.at(made, places, values)
    else:
        made[places] = values
    return made.reshape(x.shape)


ROWS: Final[list[Row]] = [
    Row("complex", _pair, np.broadcast_arrays, call=_halves("complex"), without="large limits",
        smooth=True),
    Row("polar", _pair, _polar, call=_halves("polar"), without=f"{_SAME} long", moves=True,
        smooth=True),
    Row("logspace", _powers, np.logspace, without=f"{_SAME} long", near=1e-4),
    Row("geomspace", _ratios, np.geomspace, without=f"{_SAME} long", near=1e-4),
    Row("histogramdd", _cells, _histogram, call=_edges_too, without=_SAME),
    Row("apply_along_axis", _along, _lines, call=_of_lines, without=_SAME, smooth=True),
    Row("cartesian_prod", _vectors, _products, without=f"{_SAME} long", smooth=True),
    Row("put", _written, _put, without=_SAME, smooth=True),
]  # fmt: skip
