"""Functions of calor_nn that read between elements: resizing, sampling, deformed products."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...language import Array
from ..drawing import Arguments, Rng, coin, floats
from .language import Function, Row

_SAME: Final = "nan infinite zeros ties equal small limits long short"
_SHARP, _SMOOTH = -0.75, -0.5


def _triangle(d: Array) -> Array:
    return np.asarray(np.maximum(1 - np.abs(d), 0))


def _keys(a: float) -> Callable[[Array], Array]:
    """Return Keys' kernel of cubic convolution."""

    def kernel(d: Array) -> Array:
        d = np.abs(d)
        near = (a + 2) * d**3 - (a + 3) * d**2 + 1
        far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0.0))

    return kernel


MODES: Final = {
    1: ("nearest", "nearest-exact", "area", "linear"),
    2: ("nearest", "nearest-exact", "area", "bilinear", "bicubic"),
    3: ("nearest", "nearest-exact", "area", "trilinear"),
}


def resized(rng: Rng, *, mode: str, rank: int) -> Arguments:
    shape = tuple(int(n) for n in rng.integers(1, 6, rank))
    options: dict[str, Any] = {"mode": mode}
    if "linear" in mode or mode == "bicubic":
        options["align_corners"] = coin(rng)
        options["antialias"] = coin(rng)
    if coin(rng):
        options["size"] = [int(n) for n in rng.integers(1, 9, rank)]
    else:
        factors = [float(rng.choice((0.5, 0.75, 1.0, 1.5, 2.0, 2.3))) for _ in range(rank)]
        options["scale_factor"] = [max(f, 1.0 / n) for f, n in zip(factors, shape, strict=True)]
    return [floats(rng, (2, 2, *shape))], options


def _of_mode(mode: str, rank: int) -> Callable[[Rng], Arguments]:
    return lambda rng: resized(rng, mode=mode, rank=rank)


def _of_samples(mode: str) -> Callable[[Rng], Arguments]:
    return lambda rng: _sampled(rng, mode=mode)


def _weights(old: int, new: int, apart: float, mode: str, align: bool, wide: bool) -> Array:
    """Return what each element adds to each result along an axis."""
    made = np.zeros((new, old))
    if mode.startswith("nearest"):
        centre = np.arange(new, dtype=np.float32) + np.float32(0.5 * (mode == "nearest-exact"))
        places = np.floor(centre * np.float32(apart)).astype(int)
        made[np.arange(new), np.minimum(places, old - 1)] = 1
        return made
    cubic = mode == "bicubic"
    if align:
        apart = (old - 1) / (new - 1) if new > 1 else 0.0
    if wide:
        scale = max(apart, 1.0)
        kernel = _keys(_SMOOTH) if cubic else _triangle
        off = np.arange(old) + 0.5 - (np.arange(new)[:, None] + 0.5) * apart
        made = kernel(off / scale)
        return np.asarray(made / made.sum(1, keepdims=True))
    kernel = _keys(_SHARP) if cubic else _triangle
    source = np.arange(new) * apart if align else (np.arange(new) + 0.5) * apart - 0.5
    for n in range(new):
        first = math.floor(source[n])
        for j in range(first - 2, first + 4):
            made[n, min(max(j, 0), old - 1)] += kernel(np.asarray(source[n] - j))
    return made


def interpolated(
    x: Array, *, mode: str, size: Any = None, scale_factor: Any = None,
    align_corners: bool = False, antialias: bool = False,
) -> Any:  # fmt: skip
    for axis in range(2, x.ndim):
        old = x.shape[axis]
        factor = None if scale_factor is None else scale_factor[axis - 2]
        new = int(old * factor) if factor is not None else size[axis - 2]
        if mode == "area":
            of = np.zeros((new, old))
            for n in range(new):
                first, last = n * old // new, -(-(n + 1) * old // new)
                of[n, first:last] = 1 / (last - first)
        elif old == new and (factor in (None, 1.0) or align_corners):
            continue
        else:
            apart = old / new if factor is None else 1 / factor
            of = _weights(old, new, apart, mode, align_corners, antialias)
        x = np.moveaxis(np.tensordot(of, x, (1, axis)), 0, axis)
    return x


def _reflected(at: float, n: int, align: bool) -> float:
    low, span = (0.0, n - 1.0) if align else (-0.5, float(n))
    if span <= 0:
        return 0.0
    turn = (at - low) % (2 * span)
    return min(turn, 2 * span - turn) + low


def _sampled(rng: Rng, *, mode: str) -> Arguments:
    rank = 2 if mode == "bicubic" else int(rng.integers(2, 4))
    shape = tuple(int(n) for n in rng.integers(1, 5, rank))
    out = tuple(int(n) for n in rng.integers(1, 4, rank))
    options = {
        "mode": mode,
        "padding_mode": str(rng.choice(("zeros", "border", "reflection"))),
        "align_corners": coin(rng),
    }
    grid = rng.uniform(-1.6, 1.6, (2, *out, rank)).astype(np.float32)
    return [floats(rng, (2, 2, *shape)), grid], options


def _read(image: Array, at: tuple[int, ...], outside: str, align: bool) -> Array:
    """Return the channels at a place, or what is read outside."""
    places = []
    for j, n in zip(at, image.shape[1:], strict=True):
        if outside == "zeros" and not 0 <= j < n:
            return np.zeros(image.shape[0])
        if outside == "reflection":
            j = int(_reflected(j, n, align))
        places.append(min(max(j, 0), n - 1))
    return np.asarray(image[(slice(None), *places)])


def _sample(image: Array, place: list[float], mode: str, outside: str, align: bool) -> Array:
    sizes = image.shape[1:]
    if mode != "bicubic" and outside != "zeros":
        if outside == "reflection":
            place = [_reflected(p, n, align) for p, n in zip(place, sizes, strict=True)]
        place = [min(max(p, 0.0), n - 1.0) for p, n in zip(place, sizes, strict=True)]
    if mode == "nearest":
        return _read(image, tuple(round(p) for p in place), outside, align)
    kernel = _keys(_SHARP) if mode == "bicubic" else _triangle
    reach = range(-1, 3) if mode == "bicubic" else range(2)
    made = np.zeros(image.shape[0])
    for steps in itertools.product(reach, repeat=len(place)):
        at = tuple(math.floor(p) + s for p, s in zip(place, steps, strict=True))
        share = math.prod(float(kernel(np.asarray(p - j))) for p, j in zip(place, at, strict=True))
        if share:
            made = made + share * _read(image, at, outside, align)
    return made


def _grid_sample(
    x: Array, grid: Array, *, mode: str, padding_mode: str, align_corners: bool
) -> Any:
    made = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for at in np.ndindex(*grid.shape[:-1]):
        place = []
        for share, n in zip(grid[at][::-1], x.shape[2:], strict=True):
            span = n - 1 if align_corners else n
            place.append(float((share + 1) * span / 2 - (0 if align_corners else 0.5)))
        one = _sample(x[at[0]], place, mode, padding_mode, align_corners)
        made[(at[0], slice(None), *at[1:])] = one
    return made


def _maps(rng: Rng) -> Arguments:
    rank = int(rng.integers(2, 4))
    size = [2, 3, *(int(n) for n in rng.integers(1, 5, rank))]
    return [floats(rng, (2, rank, rank + 1)), size], {"align_corners": coin(rng)}


def _affine_grid(theta: Array, size: list[int], *, align_corners: bool) -> Any:
    lines = []
    for n in size[2:]:
        ends = np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
        lines.append(ends if align_corners else ends * ((n - 1) / n))
    places = np.stack([*np.meshgrid(*lines, indexing="ij")][::-1], -1)
    ones = np.ones((*places.shape[:-1], 1))
    return np.einsum("...j,nij->n...i", np.concatenate([places, ones], -1), theta)


def _deformed(rng: Rng) -> Arguments:
    kernel, shape = rng.integers(1, 3, 2).tolist(), rng.integers(3, 5, 2).tolist()
    groups, shares = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    depth = 2 * int(rng.integers(1, 2))
    options: dict[str, Any] = {
        "stride": rng.integers(1, 3, 2).tolist(), "padding": rng.integers(0, 2, 2).tolist(),
        "dilation": rng.integers(1, 3, 2).tolist(),
    }  # fmt: skip
    out = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(shape, kernel, *options.values(), strict=True)
    ]
    taps = shares * math.prod(kernel)
    offset = rng.uniform(-1.4, 1.4, (2, 2 * taps, *out)).astype(np.float32)
    if coin(rng):
        options["mask"] = rng.random((2, taps, *out)).astype(np.float32)
    given = [floats(rng, (2, depth, *shape)), offset]
    given.append(floats(rng, (groups, depth // groups, *kernel)))
    return [*given, *([floats(rng, (groups,))] if coin(rng) else [])], options


def _deform(
    x: Array, offset: Array, w: Array, b: Any = None, *, stride: Any, padding: Any, dilation: Any,
    mask: Any = None,
) -> Any:  # fmt: skip
    """Return the product whose element (y, x) of a window is read beside it by its offset."""
    kernel, out = w.shape[2:], offset.shape[2:]
    shares = offset.shape[1] // (2 * math.prod(kernel))
    groups, depth = x.shape[1] // w.shape[1], x.shape[1]
    made = np.zeros((len(x), len(w), *out))
    for n, at in itertools.product(range(len(x)), np.ndindex(*out)):
        columns = np.zeros((depth, *kernel))
        for g, tap in itertools.product(range(shares), np.ndindex(*kernel)):
            number = g * math.prod(kernel) + tap[0] * kernel[1] + tap[1]
            place = [
                at[a] * stride[a] - padding[a] + tap[a] * dilation[a]
                + float(offset[(n, 2 * number + a, *at)])
                for a in range(2)
            ]  # fmt: skip
            own = slice(g * depth // shares, (g + 1) * depth // shares)
            one = _sample(x[n, own], place, "bilinear", "zeros", False)
            columns[(own, *tap)] = one * (1 if mask is None else mask[(n, number, *at)])
        for g in range(groups):
            rows = slice(g * len(w) // groups, (g + 1) * len(w) // groups)
            part = columns[g * depth // groups : (g + 1) * depth // groups]
            made[(n, rows, *at)] = (w[rows] * part).sum((1, 2, 3))
    return made if b is None else made + b.reshape(-1, 1, 1)


def _row(name: str, draw: Callable[[Rng], Arguments], meaning: Function, **more: Any) -> Row:
    return Row(name, draw, meaning, without=_SAME, moves=True, **more)


ROWS: Final[list[Row]] = [
    *(
        _row(
            "interpolate",
            _of_mode(mode, rank),
            interpolated,
            smooth=True,
            about=f"{mode} of {rank}",
        )
        for rank, modes in MODES.items()
        for mode in modes
    ),
    *(
        _row("grid_sample", _of_samples(mode), _grid_sample, near=1e-4, smooth=True, about=mode)
        for mode in ("bilinear", "nearest", "bicubic")
    ),
    _row("affine_grid", _maps, _affine_grid, smooth=True),
    _row("deform_conv2d", _deformed, _deform, near=1e-4, smooth=True),
]
