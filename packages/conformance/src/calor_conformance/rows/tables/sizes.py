"""Rows of sizes: lengths around the blocks, tiles and grids that devices compute in.

Operands are small whole numbers, so that every sum of them is exact, whatever its order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import calor
from calor.ops.base import find

from ..language import Array

BLOCKS = (255, 256, 257, 1023, 1025, 4097)
# Beyond what 16 bits count, and what a grid of blocks has in one axis.
GRIDS = (*BLOCKS, 65_537)
LARGE = (*GRIDS, (1 << 20) + 3)
TILES = (31, 33, 65, 129)


@dataclass(frozen=True)
class Sized:
    """One row: an op at some lengths, with a meaning in NumPy.

    ``draw`` takes a generator and the length and returns operands, ``run`` tensors and returns a
    tensor, ``meaning`` arrays and returns an array. ``bound`` is the relative error; 0 is exact.
    ``least`` is the smallest length that the row has a meaning at.
    """

    op: str
    name: str
    sizes: tuple[int, ...]
    draw: Callable[[np.random.Generator, int], list[Array]]
    run: Callable[..., Any]
    meaning: Callable[..., Any]
    bound: float = 0.0
    least: int = 1


def _whole(*shapes: Any, low: int = -8, high: int = 9) -> Any:
    """Whole numbers; "n" in a shape stands for the length."""

    def draw(rng: np.random.Generator, n: int) -> list[Array]:
        sized = [tuple(n if a == "n" else a for a in shape) for shape in shapes]
        return [rng.integers(low, high, shape).astype(np.float32) for shape in sized]

    return draw


def _indexed(rows: Any, count: Any, *more: Any) -> Any:
    """Whole numbers in rows, indices of the rows, and what else there is."""

    def draw(rng: np.random.Generator, n: int) -> list[Array]:
        size, many = (n if a == "n" else a for a in (rows, count))
        x = _whole((size, 2))(rng, n)[0]
        return [x, rng.integers(0, size, (many, 1)), *_whole(*more)(rng, n)]

    return draw


def _conditions(rng: np.random.Generator, n: int) -> list[Array]:
    return [rng.random(n) < 0.5, *_whole(("n",), ("n",))(rng, n)]


def _last_alone(rng: np.random.Generator, n: int) -> list[Array]:
    made = np.zeros((2, n), np.float32)
    made[1, -1] = 1
    return [made]


def _signs(rng: np.random.Generator, n: int) -> list[Array]:
    return [np.where(rng.random(n) < 0.5, -1, 1).astype(np.float32)]


def _well_posed(rng: np.random.Generator, n: int) -> list[Array]:
    a, b = _whole(("n", "n"), ("n", 3))(rng, n)
    return [a + np.eye(n, dtype=np.float32) * 16 * n, b]


def _scattered(x: Array, places: Array, updates: Array) -> Array:
    made = x.copy()
    np.add.at(made, places[:, 0], updates)
    return made


def _softmax(x: Array) -> Array:
    powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def _attended(q: Array, k: Array, v: Array) -> Array:
    weights = _softmax(np.einsum("nhle,nhse->nhls", q, k) * 0.125)
    return np.asarray(np.einsum("nhls,nhsv->nhlv", weights, v))


def _convolved(x: Array, w: Array) -> Array:
    rows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (2, 2))), 5, -1)
    return np.asarray(np.einsum("nclk,ock->nol", rows, w))


def _wide_window(rng: np.random.Generator, n: int) -> list[Array]:
    made: list[Array] = _whole((1, 2, n + 70), (3, 2, "n"), low=-2, high=3)(rng, n)
    return made


def _crossed(x: Array, w: Array) -> Array:
    rows = np.lib.stride_tricks.sliding_window_view(x, w.shape[-1], -1)
    return np.asarray(np.einsum("nclk,ock->nol", rows, w))


def _windows(x: Array) -> Array:
    return np.asarray(np.lib.stride_tricks.sliding_window_view(x, 3, -1).max(-1))


def _sums_apart(x: Array) -> Array:
    """Sums of 3 elements each 2 apart, at every third place."""
    return np.asarray(np.lib.stride_tricks.sliding_window_view(x, 5, -1)[:, ::3, ::2].sum(-1))


def _padded(x: Array) -> Array:
    made = np.zeros((2 * len(x) + 2,), x.dtype)
    made[1 : 2 * len(x) : 2] = x
    return made


def _op(name: str, **attributes: Any) -> Callable[..., Any]:
    return lambda *tensors: find(name)(*tensors, **attributes)


_X, _PAIR, _ROWS = _whole(("n",)), _whole(("n",), ("n",)), _whole((3, "n"))
_STEPS = {"stride": (1,), "dilation": (1,)}

SIZES: list[Sized] = [
    Sized("add", "", LARGE, _PAIR, _op("add"), np.add),
    Sized("mul", "", LARGE, _PAIR, _op("mul"), np.multiply),
    Sized("where", "", GRIDS, _conditions, _op("where"), np.where),
    Sized("cast", "", GRIDS, _X, _op("cast", dtype=calor.int32), lambda x: x.astype(np.int32)),
    Sized("expand", "", GRIDS, _whole(("n", 1)), lambda x: calor.broadcast_to(x, (x.shape[0], 3)),
          lambda x: np.broadcast_to(x, (len(x), 3))),
    Sized("permute", "", GRIDS, _whole(("n", 3)), _op("permute", axes=(1, 0)), np.transpose),
    Sized("permute", "square", TILES, _whole((2, "n", "n")), _op("permute", axes=(2, 0, 1)),
          lambda x: x.transpose(2, 0, 1)),
    Sized("flip", "", GRIDS, _X, _op("flip", axes=(0,)), np.flip),
    Sized("slice", "", GRIDS, _X, lambda x: x[1:-1:2], lambda x: x[1:-1:2]),
    Sized("pad", "", GRIDS, _X,
          lambda x: find("pad")(x, calor.asarray(np.float32(0)), low=(1,), high=(2,),
                                interior=(1,)), _padded),
    Sized("concat", "", GRIDS, _whole(("n",), (3,), ("n",)), lambda *x: calor.concat(x),
          lambda *x: np.concatenate(x)),
    Sized("sum", "last", GRIDS, _ROWS, lambda x: calor.sum(x, axis=1), lambda x: x.sum(1)),
    Sized("sum", "first", GRIDS, _whole(("n", 3)), lambda x: calor.sum(x, axis=0),
          lambda x: x.sum(0)),
    Sized("sum", "all", LARGE, _X, calor.sum, np.sum),
    Sized("max", "", GRIDS, _ROWS, lambda x: calor.max(x, axis=1), lambda x: x.max(1)),
    Sized("max", "end", GRIDS, _last_alone, lambda x: calor.max(x, axis=1), lambda x: x.max(1)),
    Sized("any", "", GRIDS, _last_alone, lambda x: calor.any(x, axis=1),
          lambda x: (x != 0).any(1)),
    Sized("argmax", "", GRIDS, _ROWS, lambda x: calor.argmax(x, axis=1), lambda x: x.argmax(1)),
    Sized("argmax", "rows", TILES, _whole(("n", 1100)), lambda x: calor.argmax(x, axis=1),
          lambda x: x.argmax(1)),
    Sized("argmax", "end", GRIDS, _last_alone, lambda x: calor.argmax(x, axis=1),
          lambda x: x.argmax(1)),
    Sized("cumsum", "", LARGE, _X, _op("cumsum", axis=0, reverse=False), np.cumsum),
    Sized("cumsum", "reverse", LARGE, _X, _op("cumsum", axis=0, reverse=True),
          lambda x: np.cumsum(x[::-1])[::-1]),
    Sized("cumsum", "first", GRIDS, _whole(("n", 3)), _op("cumsum", axis=0, reverse=False),
          lambda x: np.cumsum(x, 0)),
    Sized("cumsum", "first-reverse", GRIDS, _whole(("n", 3)), _op("cumsum", axis=0, reverse=True),
          lambda x: np.cumsum(x[::-1], 0)[::-1]),
    Sized("cumprod", "", GRIDS, _signs, _op("cumprod", axis=0, reverse=False), np.cumprod),
    Sized("cummax", "", GRIDS, _X, _op("cummax", axis=0, reverse=False), np.maximum.accumulate),
    Sized("sort", "", GRIDS, _whole((2, "n"), high=5000), lambda x: calor.sort(x, axis=1),
          lambda x: np.sort(x, 1)),
    Sized("sort", "places", GRIDS, _whole((2, "n")), lambda x: calor.argsort(x, axis=1),
          lambda x: np.argsort(x, 1, kind="stable")),
    Sized("gather", "", GRIDS, _indexed("n", 50), lambda x, i: calor.take(x, i[:, 0], axis=0),
          lambda x, i: x[i[:, 0]]),
    Sized("gather", "many", GRIDS, _indexed(7, "n"), lambda x, i: calor.take(x, i[:, 0], axis=0),
          lambda x, i: x[i[:, 0]]),
    Sized("scatter_nd", "", GRIDS, _indexed(7, "n", ("n", 2)), _op("scatter_nd", update="add"),
          _scattered),
    Sized("dot_general", "deep", GRIDS, _whole((5, "n"), ("n", 3)), lambda a, b: a @ b, np.matmul),
    Sized("dot_general", "tall", GRIDS, _whole(("n", 5), (5, 3)), lambda a, b: a @ b, np.matmul),
    Sized("dot_general", "wide", GRIDS, _whole((5, 3), (3, "n")), lambda a, b: a @ b, np.matmul),
    Sized("dot_general", "transposed", GRIDS, _whole(("n", 5), (3, "n")),
          lambda a, b: a.mT @ b.mT, lambda a, b: a.T @ b.T),
    Sized("dot_general", "square", TILES, _whole((2, "n", "n"), (2, "n", "n")),
          lambda a, b: a @ b, np.matmul),
    Sized("conv", "", GRIDS, _whole((1, 2, "n"), (3, 2, 5)),
          _op("conv", padding=((2, 2),), groups=1, **_STEPS), _convolved),
    *(
        Sized("conv", name, TILES, _whole(*shapes, low=-2, high=3),
              _op("conv", padding=((0, 0),), groups=1, **_STEPS), _crossed)
        for name, shapes in [
            ("channels", ((1, "n", 9), (3, "n", 5))),
            ("filters", ((1, 2, 9), ("n", 2, 5))),
            ("images", (("n", 2, 9), (3, 2, 5))),
        ]
    ),
    Sized("conv", "window", TILES, _wide_window,
          _op("conv", padding=((0, 0),), groups=1, **_STEPS), _crossed),
    Sized("window_reduce", "", GRIDS, _whole((2, "n")),
          _op("window_reduce", kind="max", window=(3,), padding=((0, 0),), **_STEPS), _windows,
          least=3),
    Sized("window_reduce", "apart", GRIDS, _whole((2, "n")),
          _op("window_reduce", kind="sum", window=(3,), padding=((0, 0),), stride=(3,),
              dilation=(2,)), _sums_apart, least=5),
    Sized("softmax", "", GRIDS, _ROWS, _op("softmax", axis=1), _softmax, 1e-5),
    Sized("softmax", "first", BLOCKS, _whole(("n", 3)), _op("softmax", axis=0),
          lambda x: _softmax(x.T).T, 1e-5),
    Sized("attention", "", TILES,
          _whole((1, 2, "n", 8), (1, 2, "n", 8), (1, 2, "n", 8), low=-2, high=3),
          lambda q, k, v: find("attention")(q, k, v, causal=False, scale=0.125)[0], _attended,
          1e-5),
    *(
        Sized("attention", name, sizes, _whole(*shapes, low=-2, high=3),
              lambda q, k, v: find("attention")(q, k, v, causal=False, scale=0.125)[0], _attended,
              1e-5)
        for name, sizes, shapes in [
            ("keys", BLOCKS, ((1, 2, 5, 8), (1, 2, "n", 8), (1, 2, "n", 8))),
            ("queries", BLOCKS, ((1, 2, "n", 8), (1, 2, 7, 8), (1, 2, 7, 8))),
            ("width", TILES, ((1, 2, 5, "n"), (1, 2, 7, "n"), (1, 2, 7, 3))),
            ("values", TILES, ((1, 2, 5, 3), (1, 2, 7, 3), (1, 2, 7, "n"))),
        ]
    ),
    Sized("scan", "", BLOCKS[:4], _X,
          lambda x: calor.scan(lambda c, row: (c + row, c), calor.asarray(np.float32(0)), x)[1],
          lambda x: np.concatenate([[0], np.cumsum(x)[:-1]]).astype(np.float32)),
    Sized("fft", "", (*BLOCKS, 4093), _X, lambda x: calor.fft.fft(x), np.fft.fft, 1e-5),
    Sized("solve", "", TILES, _well_posed, calor.linalg.solve, np.linalg.solve, 1e-5),
    Sized("random_bits", "", (65_537,), lambda rng, n: [np.array([1, 2], np.uint32)],
          lambda key: find("random_bits")(key, calor.asarray(np.zeros(4, np.uint32)),
                                          shape=(65_537,), bits=32),
          lambda key: find("random_bits").reference(  # type: ignore[misc]
              key, np.zeros(4, np.uint32), shape=(65_537,), bits=32)),
]  # fmt: skip
