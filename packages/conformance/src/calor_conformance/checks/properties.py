"""Properties: shapes and numbers that are drawn, besides the fixed rows.

Each example has a seed of its own, so that a report is reproducible; another seed draws others. Of
a failure the shortest one among further examples is told. Each kind of defect also has a fixed row.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType, float32, int32

from ..provisional import provisional
from ..rows.judging import judge, numpy_of, put
from ..rows.language import Case
from .base import Check, Place
from .rows import main_dtype, row_check

EXAMPLES = 25
# Elementwise ops are many, and have checks of shapes and sizes besides.
_FEW = 12
# The release that added these checks.
SINCE = "0.1"
# How many further examples are tried of what failed.
SMALLER = 60
Rng = np.random.Generator


def shapes(rng: Rng) -> tuple[int, ...]:
    """Return a shape of up to four axes, with short and empty ones."""
    return tuple(int(n) for n in rng.integers(0, 6, int(rng.integers(0, 5))))


def searched(
    place: Place,
    draw: Callable[[Rng], Any],
    body: Callable[[Any], None],
    examples: int = EXAMPLES,
) -> None:
    """Run a function on drawn examples, and raise the shortest failure that is found.

    Parameters
    ----------
    place : Place
        The device, and the seed.
    draw : callable
        Returns an example.
    body : callable
        Called with an example; raises where it is wrong.
    examples : int, optional
        How many are drawn.
    """
    for number in range(examples):
        example = draw(np.random.default_rng([place.seed, 17, number]))
        try:
            body(example)
        except Exception as error:
            raise _shortest(place, draw, body, repr(example), error) from None


def _shortest(
    place: Place,
    draw: Callable[[Rng], Any],
    body: Callable[[Any], None],
    told: str,
    error: Exception,
) -> Exception:
    """Return the error of the example with the shortest text among further ones that fail."""
    for number in range(SMALLER):
        example = draw(np.random.default_rng([place.seed, 18, number]))
        if len(repr(example)) < len(told):
            try:
                body(example)
            except Exception as found:
                told, error = repr(example), found
    return error


def elementwise(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield checks of elementwise ops at drawn shapes."""
    seen: set[str] = set()
    for c in cases:
        if c.elementwise and c.op not in seen:
            seen.add(c.op)
            yield _elementwise(c, main_dtype(c))


def _elementwise(c: Case, dtype: DType) -> Check:
    def run(place: Place) -> None:
        def body(example: Any) -> None:
            shape, number = example
            resized = c.resized(shape)
            arrays = resized.draw(dtype, number)
            made = numpy_of(resized.call(*put(arrays), dtype=dtype))
            judge(resized, dtype, arrays, made, place.flushes)

        searched(place, lambda rng: (shapes(rng), int(rng.integers(1 << 31))), body, _FEW)

    return row_check(
        "properties", c, dtype, "full", (run, None), subject=c.op, looks=True, since=SINCE
    )


def _walk(rng: Rng) -> tuple[tuple[int, ...], list[tuple[str, Any]]]:
    """Return a shape and a chain of movement ops that fit it."""
    shape = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 5))))
    start: tuple[int, ...] = shape
    steps: list[tuple[str, Any]] = []
    for _ in range(int(rng.integers(1, 5))):
        name = str(rng.choice(["permute", "flip", "index", "reshape", "expand"]))
        if name == "permute":
            order = tuple(int(n) for n in rng.permutation(len(shape)))
            steps.append((name, order))
            shape = tuple(shape[i] for i in order)
        elif name == "flip":
            steps.append((name, int(rng.integers(max(len(shape), 1)))))
        elif name == "index":
            cuts = tuple(_slice(rng, n) for n in shape)
            steps.append((name, cuts))
            shape = np.empty(shape)[cuts].shape
        elif name == "reshape":
            steps.append((name, (-1,) if 0 not in shape else (0,)))
            shape = (int(np.prod(shape)),)
        elif shape:
            steps.append((name, (2, *shape)))
            shape = (2, *shape)
    return start, steps


def _slice(rng: Rng, size: int) -> slice:
    """Return a slice of an axis, whose ends may be left out or lie beyond it."""
    start, stop = (
        None if rng.random() < 0.3 else int(rng.integers(-size - 1, size + 2)) for _ in range(2)
    )
    step = None if rng.random() < 0.4 else int(rng.choice([-3, -2, -1, 1, 2, 3]))
    return slice(start, stop, step)


_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "permute": lambda x, order: np.transpose(x, order),
    "flip": lambda x, axis: np.flip(x, axis),
    "index": lambda x, cuts: x[cuts],
    "reshape": lambda x, shape: np.reshape(x, shape),
    "expand": lambda x, shape: np.broadcast_to(x, shape),
}
_CALOR: dict[str, Callable[[Any, Any], Any]] = {
    "permute": lambda x, order: calor.permute_dims(x, order),
    "flip": lambda x, axis: calor.flip(x, axis=axis),
    "index": lambda x, cuts: x[cuts],
    "reshape": lambda x, shape: calor.reshape(x, shape),
    "expand": lambda x, shape: calor.broadcast_to(x, shape),
}


def _movements(place: Place) -> None:
    def body(example: Any) -> None:
        shape, steps = example
        array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
        tensor = calor.asarray(array)
        for name, argument in steps:
            array, tensor = _NUMPY[name](array, argument), _CALOR[name](tensor, argument)
        got = (tensor + 1).numpy()
        assert got.shape == array.shape, f"{got.shape}, not {array.shape}, after {steps}"
        assert (got == array + 1).all(), f"{got}\nnot\n{array + 1}\nafter {steps} on {shape}"

    searched(place, _walk, body)


def _reductions(place: Place) -> None:
    def body(example: Any) -> None:
        shape, chosen, keep, number = example
        axes = tuple(sorted({a % len(shape) for a in chosen})) if shape else ()
        array = np.random.default_rng(number).integers(-9, 9, shape).astype(np.int32)
        got = calor.sum(calor.asarray(array), axis=axes, keepdims=keep, dtype=int32).numpy()
        want = array.sum(axis=axes, keepdims=keep, dtype=np.int32)
        assert got.shape == want.shape, f"{got.shape}, not {want.shape}"
        assert (got == want).all(), f"{got}\nnot\n{want}\nfor axes {axes} of {array!r}"

    def draw(rng: Rng) -> Any:
        axes = [int(a) for a in rng.integers(0, 4, int(rng.integers(0, 4)))]
        return shapes(rng), axes, bool(rng.random() < 0.5), int(rng.integers(100))

    searched(place, draw, body)


def _products(place: Place) -> None:
    def body(example: Any) -> None:
        m, k, n, batch, number = example
        rng = np.random.default_rng(number)
        a = rng.integers(-4, 5, (*batch, m, k)).astype(np.float32)
        b = rng.integers(-4, 5, (*batch, k, n)).astype(np.float32)
        got = (calor.asarray(a) @ calor.asarray(b)).numpy()
        assert (got == a @ b).all(), f"{a!r} @ {b!r} gave {got!r}"

    def draw(rng: Rng) -> Any:
        batch = tuple(int(n) for n in rng.integers(0, 4, int(rng.integers(0, 3))))
        return (*(int(n) for n in rng.integers(0, 8, 3)), batch, int(rng.integers(100)))

    searched(place, draw, body)


def searches() -> Iterator[Check]:
    """Yield checks of chains of movements, reductions over any axes, and products of any sizes."""
    for body, kinds in ((_movements, (float32,)), (_reductions, (int32,)), (_products, (float32,))):
        yield Check(
            kind="properties",
            subject=body.__name__.strip("_"),
            tier="full",
            contract="movements, sums and products agree with NumPy's at every shape",
            looks=True,
            run=body,
            text=partial(inspect.getsource, body),
            dtypes=kinds,
            provisional=provisional(SINCE),
        )
