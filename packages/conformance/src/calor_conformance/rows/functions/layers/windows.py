"""Functions of calor_nn over windows of one to three axes: products, maxima, means, columns.

Each meaning is one table of all windows, taken from a padded array by their indices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ...language import Array
from ..drawing import Arguments, Rng, coin, different, floats
from .language import Function, Row

# Lengths and numbers are drawn here, and these asks would draw them again.
_SAME: Final = "equal small limits long short"
_LETTERS: Final = "xyz"


def _each(rank: int, given: Any) -> tuple[int, ...]:
    return tuple(given) if isinstance(given, list | tuple) else (given,) * rank


def _sides(rank: int, padding: Any) -> list[tuple[int, int]]:
    """Return the elements before and after each axis: equal ones, or pairs."""
    every: Any = _each(rank, padding)
    return [p if isinstance(p, tuple) else (p, p) for p in every]


def _cut(x: Array, places: Sequence[Array]) -> Array:
    """Return the elements of windows, (N, C, *windows, *elements), at places of each axis."""
    for n, at in enumerate(places):
        x = np.take(x, at, axis=2 + 2 * n)
    rank = len(places)
    order = [0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)]
    return x.transpose(order)


def _count(n: int, k: int, s: int, p: tuple[int, int], d: int, ceil: bool = False) -> int:
    room = n + sum(p) - d * (k - 1) - 1
    count = (-(-room // s) if ceil else room // s) + 1
    # The last window begins in the array or before it.
    return count - 1 if ceil and (count - 1) * s >= n + p[0] else count


def _windows(
    x: Array, kernel: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    fill: float = 0.0, ceil: bool = False,
) -> Array:  # fmt: skip
    rank = x.ndim - 2
    ks, ss, ds = (_each(rank, v) for v in (kernel, stride, dilation))
    ps = _sides(rank, padding)
    wide = [(0, 0), (0, 0)]
    places = []
    for n, k, s, p, d in zip(x.shape[2:], ks, ss, ps, ds, strict=True):
        count = _count(n, k, s, p, d, ceil)
        at = np.arange(count)[:, None] * s + np.arange(k) * d
        places.append(at)
        wide.append((p[0], max(p[1], int(at.max(initial=0)) - n - p[0] + 1)))
    return _cut(np.pad(x, wide, constant_values=fill), places)


def _inner(rank: int) -> tuple[int, ...]:
    return tuple(range(-rank, 0))


def _drawn_windows(rng: Rng, rank: int, *, dilates: bool = False, pads: bool = True) -> Any:
    """Return spatial sizes, window sizes, and the options of windows that fit."""
    ks = [int(n) for n in rng.integers(1, 4, rank)]
    ds = [int(n) for n in rng.integers(1, 3, rank)] if dilates else [1] * rank
    shape = tuple(d * (k - 1) + int(rng.integers(1, 5)) for k, d in zip(ks, ds, strict=True))
    options: dict[str, Any] = {}
    if rng.random() < 0.8:
        options["stride"] = [int(n) for n in rng.integers(1, 4, rank)]
    if pads and coin(rng):
        options["padding"] = [int(rng.integers(0, k // 2 + 1)) for k in ks]
    if dilates and max(ds) > 1:
        options["dilation"] = ds
    kernel: Any = ks
    if coin(rng) and len(set(ks)) == 1:
        kernel = ks[0]
    return shape, kernel, options


def _product(rank: int) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        shape, kernel, options = _drawn_windows(rng, rank, dilates=True)
        groups, depth = int(rng.integers(1, 3)), int(rng.integers(1, 3))
        rows = groups * int(rng.integers(1, 3))
        if groups > 1:
            options["groups"] = groups
        if rng.random() < 0.25:
            options["padding"] = str(rng.choice(("same", "valid")))
            options.pop("stride", None)
        lead = () if rng.random() < 0.2 else (int(rng.integers(1, 3)),)
        x = floats(rng, (*lead, groups * depth, *shape))
        given = [x, floats(rng, (rows, depth, *_each(rank, kernel)))]
        return [*given, *([floats(rng, (rows,))] if coin(rng) else [])], options

    return drawn


def _batched(meaning: Function) -> Function:
    """Return a meaning for batches as one for a sample alone too."""

    def either(x: Array, *given: Any, **options: Any) -> Any:
        rank = options.pop("rank")
        if x.ndim == rank + 2:
            return meaning(x, *given, rank=rank, **options)
        made = meaning(x[None], *given, rank=rank, **options)
        return tuple(m[0] for m in made) if isinstance(made, tuple) else made[0]

    return either


def _conv(
    x: Array, w: Array, b: Any = None, *, rank: int, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    kernel, ds = w.shape[2:], _each(rank, dilation)
    if padding == "valid":
        padding = 0
    elif padding == "same":
        lost = [d * (k - 1) for k, d in zip(kernel, ds, strict=True)]
        padding = [(n // 2, n - n // 2) for n in lost]
    cut = _windows(x, kernel, stride, padding, dilation)
    out, inner = _LETTERS[:rank], _LETTERS[:rank].upper()
    cut = cut.reshape(len(cut), groups, -1, *cut.shape[2:])
    parts = w.reshape(groups, -1, *w.shape[1:])
    made = np.einsum(f"ngc{out}{inner},gkc{inner}->ngk{out}", cut, parts, optimize=True)
    made = made.reshape(len(x), len(w), *made.shape[3:])
    return made if b is None else made + b.reshape(-1, *(1,) * rank)


def _back(rank: int) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        ks, ss, ds = (rng.integers(1, top, rank).tolist() for top in (4, 4, 3))
        shape = tuple(int(n) for n in rng.integers(1, 4, rank))
        groups, depth = int(rng.integers(1, 3)), int(rng.integers(1, 3))
        options: dict[str, Any] = {"stride": ss}
        if coin(rng):
            options["dilation"] = ds
        wide = options.get("dilation", [1] * rank)
        if coin(rng):
            # What is cut off leaves an element at least.
            options["padding"] = [
                min(1, (((n - 1) * s + d * (k - 1)) // 2))
                for n, k, s, d in zip(shape, ks, ss, wide, strict=True)
            ]
        if coin(rng):
            options["output_padding"] = [
                int(rng.integers(0, max(s, d))) for s, d in zip(ss, wide, strict=True)
            ]
        if groups > 1:
            options["groups"] = groups
        rows = int(rng.integers(1, 3))
        lead = () if rng.random() < 0.2 else (int(rng.integers(1, 3)),)
        x = floats(rng, (*lead, groups * depth, *shape))
        given = [x, floats(rng, (groups * depth, rows, *ks))]
        return [*given, *([floats(rng, (groups * rows,))] if coin(rng) else [])], options

    return drawn


def _conv_back(
    x: Array, w: Array, b: Any = None, *, rank: int, stride: Any, padding: Any = 0,
    output_padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    """Add each element's multiple of the weight where its window is."""
    kernel = w.shape[2:]
    ss, ps, os, ds = (_each(rank, v) for v in (stride, padding, output_padding, dilation))
    sizes = [
        (n - 1) * s + d * (k - 1) + 1 + o
        for n, k, s, o, d in zip(x.shape[2:], kernel, ss, os, ds, strict=True)
    ]
    rows = w.shape[1]
    made = np.zeros((len(x), groups * rows, *sizes))
    depth = x.shape[1] // groups
    for g, at in itertools.product(range(groups), np.ndindex(*kernel)):
        own = slice(g * depth, (g + 1) * depth)
        part = np.einsum("nc...,ck->nk...", x[:, own], w[(own, slice(None), *at)])
        cuts = tuple(
            slice(d * k, d * k + (n - 1) * s + 1, s)
            for n, k, s, d in zip(x.shape[2:], at, ss, ds, strict=True)
        )
        made[(slice(None), slice(g * rows, (g + 1) * rows), *cuts)] += part
    inside = tuple(slice(p, n - p) for n, p in zip(sizes, ps, strict=True))
    made = made[(slice(None), slice(None), *inside)]
    return made if b is None else made + b.reshape(-1, *(1,) * rank)


def _pools(rank: int, numbers: Any = floats, **choices: Any) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        dilates = choices.get("dilates", False)
        shape, kernel, options = _drawn_windows(
            rng, rank, dilates=dilates, pads=choices.get("pads", True)
        )
        if coin(rng):
            options["ceil_mode"] = coin(rng)
        if choices.get("divides") and coin(rng):
            options["count_include_pad"] = coin(rng)
            if coin(rng):
                options["divisor_override"] = int(rng.integers(1, 6))
        lead = () if rng.random() < 0.2 else (int(rng.integers(1, 3)),)
        return [numbers(rng, (*lead, 2, *shape)), kernel], options

    return drawn


def _flat(cut: Array, rank: int) -> Array:
    return cut.reshape(*cut.shape[: cut.ndim - rank], -1)


def _max_pool(
    x: Array, kernel: Any, *, rank: int, stride: Any = None, ceil_mode: bool = False,
    **options: Any,
) -> Any:  # fmt: skip
    given = {"stride": kernel if stride is None else stride, "ceil": ceil_mode, **options}
    cut = _flat(_windows(x, kernel, fill=-np.inf, **given), rank)
    numbers = np.arange(math.prod(x.shape[2:])).reshape(1, 1, *x.shape[2:])
    where = _flat(_windows(numbers, kernel, fill=-1, **given), rank)
    best = cut.argmax(-1)[..., None]
    found = np.take_along_axis(np.broadcast_to(where, cut.shape), best, -1)[..., 0]
    return cut.max(-1), found


def _avg_pool(
    x: Array, kernel: Any, *, rank: int, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Any = None,
) -> Any:  # fmt: skip
    stride = kernel if stride is None else stride
    total = _flat(_windows(x, kernel, stride, padding, ceil=ceil_mode), rank).sum(-1)
    if divisor_override is not None:
        return total / divisor_override
    ones: Array = np.ones((1, 1, *x.shape[2:]))
    if count_include_pad:
        ones = np.pad(ones, [(0, 0), (0, 0), *((p, p) for p in _each(rank, padding))],
                      constant_values=1.0)  # fmt: skip
        counted = _counted(ones, x.shape[2:], kernel, stride, padding, ceil_mode, rank)
    else:
        counted = _flat(_windows(ones, kernel, stride, padding, ceil=ceil_mode), rank).sum(-1)
    return total / counted


def _counted(
    ones: Array, sizes: Any, kernel: Any, stride: Any, padding: Any, ceil: bool, rank: int
) -> Array:
    """Return how many elements, padding included, each window has."""
    places, wide = [], [(0, 0), (0, 0)]
    for n, k, s, p in zip(sizes, *(_each(rank, v) for v in (kernel, stride, padding)), strict=True):
        at = np.arange(_count(n, k, s, (p, p), 1, ceil))[:, None] * s + np.arange(k)
        places.append(at)
        wide.append((0, max(0, int(at.max(initial=0)) - n - 2 * p + 1)))
    return np.asarray(_flat(_cut(np.pad(ones, wide), places), rank).sum(-1))


def _positive(rng: Rng, shape: tuple[int, ...]) -> Array:
    return np.abs(floats(rng, shape)) + np.float32(0.1)


def _rooted(rank: int) -> Callable[[Rng], Arguments]:
    draw = _pools(rank, _positive, pads=False)

    def drawn(rng: Rng) -> Arguments:
        (x, kernel), options = draw(rng)
        return [x, float(rng.choice((1.0, 2.0, 3.0, math.inf, 1.5))), kernel], options

    return drawn


def _lp_pool(
    x: Array, p: float, kernel: Any, *, rank: int, stride: Any = None, ceil_mode: bool = False
) -> Any:
    stride = kernel if stride is None else stride
    if p == math.inf:
        cut = _windows(x, kernel, stride, ceil=ceil_mode, fill=-np.inf)
        return _flat(cut, rank).max(-1)
    total = _flat(_windows(x**p, kernel, stride, ceil=ceil_mode), rank)
    ones = np.ones((1, 1, *x.shape[2:]))
    there = _flat(_windows(ones, kernel, stride, ceil=ceil_mode), rank).sum(-1)
    return (total.sum(-1) * total.shape[-1] / there) ** (1 / p)


def _adapted(rank: int, numbers: Any = floats) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        shape = tuple(int(n) for n in rng.integers(1, 6, rank))
        sizes: list[Any] = [int(n) for n in rng.integers(1, 5, rank)]
        lead = () if rng.random() < 0.2 else (int(rng.integers(1, 3)),)
        x = numbers(rng, (*lead, 2, *shape))
        if rng.random() < 0.3:
            sizes[int(rng.integers(rank))] = None
        return [x, sizes if coin(rng) else sizes[0] or 1], {}

    return drawn


def _adaptive(x: Array, sizes: Any, *, rank: int, of: Function) -> Any:
    wanted: Any = _each(rank, sizes)
    counts = [n if m is None else m for n, m in zip(x.shape[2:], wanted, strict=True)]
    made = np.zeros((*x.shape[:2], *counts))
    for at in np.ndindex(*counts):
        cuts = tuple(
            slice(i * n // m, -(-(i + 1) * n // m))
            for i, n, m in zip(at, x.shape[2:], counts, strict=True)
        )
        part = x[(slice(None), slice(None), *cuts)]
        made[(slice(None), slice(None), *at)] = of(part, axis=_inner(rank))
    return made


def _adaptive_places(x: Array, sizes: Any, *, rank: int) -> Any:
    best = _adaptive(x, sizes, rank=rank, of=np.max)
    numbers = x.reshape(*x.shape[:2], -1)
    flat = best.reshape(*x.shape[:2], -1)
    # All numbers differ.
    places = (numbers[:, :, None, :] == flat[..., None]).argmax(-1)
    return best, places.reshape(best.shape)


def _columns(rng: Rng) -> Arguments:
    shape, kernel, options = _drawn_windows(rng, 2, dilates=True)
    return [floats(rng, (int(rng.integers(1, 3)), 2, *shape)), kernel], options


def _im2col(x: Array, kernel: Any, **options: Any) -> Any:
    cut = _windows(x, kernel, **options)
    n, c, *rest = cut.shape
    made = cut.reshape(n, c, math.prod(rest[:2]), -1)
    return made.transpose(0, 1, 3, 2).reshape(n, -1, made.shape[2])


def _of_columns(rng: Rng) -> Arguments:
    (x, kernel), options = _columns(rng)
    columns = _im2col(x, kernel, **options)
    return [floats(rng, columns.shape), list(x.shape[2:]), kernel], options


def _col2im(columns: Array, size: Any, kernel: Any, **options: Any) -> Any:
    """Return the sum over all columns that hold each element."""
    numbers = np.arange(1, math.prod(size) + 1).reshape(1, 1, *size)
    where = _im2col(numbers, kernel, **options)[0]
    n, depth = len(columns), columns.shape[1] // math.prod(_each(2, kernel))
    made = np.zeros((n, depth, math.prod(size) + 1))
    parts = columns.reshape(n, depth, *where.shape)
    for at in np.ndindex(*where.shape):
        made[:, :, int(where[at])] += parts[(slice(None), slice(None), *at)]
    return made[:, :, 1:].reshape(n, depth, *size)


def _unpooled(rng: Rng) -> Arguments:
    rank = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(1, 4, rank))
    wide = [n + int(rng.integers(0, 3)) for n in shape]
    x = floats(rng, (2, 2, *shape))
    size = math.prod(wide)
    places = np.stack([rng.permutation(size)[: math.prod(shape)] for _ in range(4)])
    return [x, places.reshape(x.shape).astype(np.int64), wide], {}


def _max_unpool(x: Array, places: Array, size: Any) -> Any:
    made = np.zeros((*x.shape[:2], math.prod(size)))
    flat = (*x.shape[:2], -1)
    np.put_along_axis(made, places.reshape(flat), x.reshape(flat), -1)
    return made.reshape(*x.shape[:2], *size)


def _fractions(rank: int) -> Callable[[Rng], Arguments]:
    def drawn(rng: Rng) -> Arguments:
        counts, kernel = rng.integers(1, 4, rank).tolist(), rng.integers(1, 3, rank).tolist()
        shape = tuple(m + k - 1 + int(rng.integers(0, 4)) for m, k in zip(
            counts, kernel, strict=True))  # fmt: skip
        samples = np.asarray(rng.integers(0, 16, (2, 2, rank)) / 16, np.float32)
        x = different(rng, (2, 2, *shape))
        return [x, kernel, counts], {"random_samples": samples, "return_indices": True}

    return drawn


def _fractional(
    x: Array, kernel: Any, counts: Any, *, rank: int, random_samples: Array, return_indices: bool
) -> Any:
    made, where = np.zeros((*x.shape[:2], *counts)), np.zeros((*x.shape[:2], *counts), np.int64)
    numbers = np.arange(math.prod(x.shape[2:])).reshape(x.shape[2:])
    for lead in np.ndindex(*x.shape[:2]):
        for at in np.ndindex(*counts):
            cuts = []
            sizes = zip(at, x.shape[2:], kernel, counts, random_samples[lead], strict=True)
            for i, n, k, m, u in sizes:
                step = (n - k) / (m - 1) if m > 1 else 0.0
                start = n - k if i == m - 1 else int((i + u) * step) - int(u * step)
                cuts.append(slice(start, start + k))
            part = x[lead][tuple(cuts)]
            made[lead][at] = part.max()
            where[lead][at] = numbers[tuple(cuts)].reshape(-1)[part.argmax()]
    return made, where


def _of(meaning: Function, rank: int, **more: Any) -> Function:
    return lambda *given, **options: _batched(meaning)(*given, rank=rank, **more, **options)


def _values(meaning: Function, rank: int) -> Function:
    return lambda *given, **options: _of(meaning, rank)(*given, **options)[0]


def _and_places(name: str) -> Function:
    return lambda p, *given, **more: getattr(p, name)(*given, return_indices=True, **more)


def _of_rank(rank: int) -> list[Row]:
    """Return the rows of functions over so many axes."""
    own: dict[str, Any] = {
        "moves": True, "smooth": True, "without": f"{_SAME} nan infinite", "least": 5,
    }  # fmt: skip
    rows = [
        Row(f"conv{rank}d", _product(rank), _of(_conv, rank), **own),
        Row(f"conv_transpose{rank}d", _back(rank), _of(_conv_back, rank), **own),
        Row(f"max_pool{rank}d", _pools(rank, dilates=True), _values(_max_pool, rank),
            "of windows", without=_SAME, smooth=True),
        Row(f"max_pool{rank}d", _pools(rank, different, dilates=True), _of(_max_pool, rank),
            "and places", call=_and_places(f"max_pool{rank}d"),
            without=f"{_SAME} nan infinite zeros ties large"),
        Row(f"avg_pool{rank}d", _pools(rank, divides=rank > 1), _of(_avg_pool, rank),
            "of windows", **own),
        Row(f"lp_pool{rank}d", _rooted(rank), _of(_lp_pool, rank), **own),
        Row(f"adaptive_avg_pool{rank}d", _adapted(rank), _of(_adaptive, rank, of=np.mean),
            "of windows", **own),
        Row(f"adaptive_max_pool{rank}d", _adapted(rank, different), _of(_adaptive_places, rank),
            "and places", call=_and_places(f"adaptive_max_pool{rank}d"),
            without=f"{_SAME} nan infinite zeros ties large"),
    ]  # fmt: skip
    if rank > 1:
        rows.append(Row(f"fractional_max_pool{rank}d", _fractions(rank), _of(_fractional, rank),
                        without=f"{_SAME} nan infinite zeros ties large"))  # fmt: skip
    return rows


def _bordered(rng: Rng) -> Arguments:
    x = floats(rng, tuple(rng.integers(1, 6, rng.integers(1, 4)).tolist()))
    mode = str(rng.choice(("constant", "reflect", "replicate", "circular")))
    # The last axis first. An axis is cropped by one on each side at most.
    axes = x.shape[::-1][: rng.integers(1, x.ndim + 1)]
    ends = [int(end) for n in axes for end in rng.integers(-1 if n > 2 else 0, n, 2)]
    return [x, ends, mode], {}


def _borders(x: Array, ends: Sequence[int], mode: str) -> Array:
    for axis, (low, high) in enumerate(zip(ends[::2], ends[1::2], strict=True)):
        n = x.shape[-1 - axis]
        at = np.arange(-low, n + high)
        outside = (at < 0) | (at >= n)
        first, left = max(-low, 0), n + min(low, 0) + min(high, 0)
        found = {
            "constant": np.clip(at, 0, n - 1),
            "reflect": n - 1 - np.abs(n - 1 - np.abs(at)),
            "replicate": np.clip(at, 0, n - 1),
            "circular": (at - first) % left + first,
        }[mode]
        x = np.moveaxis(np.take(x, found, -1 - axis), -1 - axis, -1)
        if mode == "constant":
            x[..., outside] = 0
        x = np.moveaxis(x, -1, -1 - axis)
    return x


ROWS: Final[list[Row]] = [
    *(row for rank in (1, 2, 3) for row in _of_rank(rank)),
    Row("im2col", _columns, _im2col, without=_SAME, smooth=True),
    Row("col2im", _of_columns, _col2im, without=f"{_SAME} nan infinite", moves=True, smooth=True),
    Row("pad", _bordered, _borders, without=_SAME, smooth=True),
    Row("max_unpool", _unpooled, _max_unpool, without=_SAME, smooth=True),
]  # fmt: skip
