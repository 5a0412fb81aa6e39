"""The operations between transforms: functions of two tensors of one shape that return one.

What is read again, in parts, by computed places or written in place is where gradients and mapped
axes go wrong, so these are among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Rng = np.random.Generator
Run = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Block:
    """A function ``run(library, x, w)`` that keeps the shape of ``x``.

    ``backward``, ``forward``: whether a derivative may be taken that way. ``text``: what it is.
    """

    run: Run
    text: str
    backward: bool = True
    forward: bool = True


def _matrix(rng: Rng, shape: tuple[int, ...]) -> Run:
    m = rng.uniform(-1, 1, (shape[-1], shape[-1]))
    return lambda lib, x, w: x @ lib.array(m) + w


def _places(rng: Rng, shape: tuple[int, ...]) -> Run:
    kind = rng.choice(("int8", "uint8", "int16", "int32", "int64"))
    places = rng.integers(0, shape[0], shape[0]).astype(kind)
    return lambda lib, x, w: lib.taken(x, places) * w


def _written(rng: Rng, shape: tuple[int, ...]) -> Run:
    at, update = int(rng.integers(shape[0])), str(rng.choice(("set", "add")))
    part = slice(at, at + 1) if rng.random() < 0.5 else at
    return lambda lib, x, w: lib.written(x, part, (w * x)[part], update) * w


def _slices(rng: Rng, shape: tuple[int, ...]) -> Run:
    cut = int(rng.integers(1, shape[0]))
    return lambda lib, x, w: lib.concat([x[cut:] * w[cut:], (x[:cut] * x[0])]) + x[-1]


def _nested_slices(rng: Rng, shape: tuple[int, ...]) -> Run:
    return lambda lib, x, w: lib.concat([x[1:][:1] * 2.0, x[1:]]) * x[0:1] + lib.concat(
        [w[:1] * 0.0, x[:-1]])  # fmt: skip


def _number(rng: Rng, shape: tuple[int, ...]) -> Run:
    by = float(rng.uniform(-1, 1))
    return lambda lib, x, w: x * by + w * w


def _always(run: Run) -> Callable[[Rng, tuple[int, ...]], Run]:
    return lambda rng, shape: run


PIECES: Final[dict[str, Callable[[Rng, tuple[int, ...]], Run]]] = {
    "tanh": _always(lambda lib, x, w: lib.tanh(x * 0.7 + w)),
    "sine": _always(lambda lib, x, w: lib.sin(x) * w),
    "product": _always(lambda lib, x, w: x * w + lib.cos(x)),
    "cube": _always(lambda lib, x, w: x**3 * 0.3 - w),
    "bell": _always(lambda lib, x, w: lib.exp(-x * x) + w),
    "share": _always(lambda lib, x, w: x / lib.sqrt(lib.sum(x * x) + 1.0) * w),
    "rest": _always(lambda lib, x, w: (x - lib.sum(x, axis=0) * 0.3) * w),
    "choice": _always(lambda lib, x, w: lib.where(x > w, x * x, w * lib.sin(x))),
    "sums": _always(lambda lib, x, w: lib.cumulative_sum(x * w)),
    "turned": _always(lambda lib, x, w: lib.flip(x) * x + w),
    "sorted": _always(lambda lib, x, w: lib.sort(x) * w),
    "largest": _always(lambda lib, x, w: x * lib.largest(x * 1.1) + w),
    "stacked": _always(lambda lib, x, w: lib.sum(lib.stack([x, w, x * w], axis=1), axis=1)),
    "matrix": _matrix, "places": _places, "written": _written, "slices": _slices,
    "nested-slices": _nested_slices, "number": _number,
}  # fmt: skip


def piece(rng: Rng, shape: tuple[int, ...]) -> Block:
    """Draw an operation, or two after each other."""
    names = [str(n) for n in rng.choice(list(PIECES), int(rng.integers(1, 3)))]
    runs = [PIECES[name](rng, shape) for name in names]

    def run(lib: Any, x: Any, w: Any) -> Any:
        for one in runs:
            x = one(lib, x, w)
        return x

    return Block(run, ", ".join(names))
