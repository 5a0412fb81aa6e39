"""Properties: shapes and numbers chosen by hypothesis, besides the fixed rows.

hypothesis shrinks a failure to its smallest case. The search is seeded, so that a report is
reproducible; another seed searches elsewhere. Each kind of defect also has a fixed row.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

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
SIDES = st.integers(0, 5)
SHAPES = st.lists(SIDES, min_size=0, max_size=4).map(tuple)


def searched(
    place: Place, strategy: Any, body: Callable[[Any], None], examples: int = EXAMPLES
) -> None:
    """Run a function on examples of a strategy and raise the smallest failure."""
    quiet = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
    )

    @seed(place.seed)
    @quiet
    @given(strategy)
    def search(example: Any) -> None:
        body(example)

    search()


def elementwise(cases: Sequence[Case]) -> Iterator[Check]:
    """Yield checks of elementwise ops at shapes chosen by hypothesis."""
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

        searched(place, st.tuples(SHAPES, st.integers(0, 2**31)), body, _FEW)

    return row_check(
        "properties", c, dtype, "full", (run, None), subject=c.op, looks=True, since=SINCE
    )


@st.composite
def _walk(draw: Any) -> tuple[tuple[int, ...], list[tuple[str, Any]]]:
    """Return a shape and a chain of movement ops that fit it."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple))
    start, steps = shape, []
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(["permute", "flip", "index", "reshape", "expand"]))
        if name == "permute":
            order = tuple(draw(st.permutations(range(len(shape)))))
            steps.append((name, order))
            shape = tuple(shape[i] for i in order)
        elif name == "flip":
            steps.append((name, draw(st.integers(0, max(len(shape) - 1, 0)))))
        elif name == "index":
            cuts = tuple(draw(st.slices(n)) for n in shape)
            steps.append((name, cuts))
            shape = np.empty(shape)[cuts].shape
        elif name == "reshape":
            steps.append((name, (-1,) if 0 not in shape else (0,)))
            shape = (int(np.prod(shape)),)
        elif shape:
            steps.append((name, (2, *shape)))
            shape = (2, *shape)
    return start, steps


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

    searched(place, _walk(), body)


def _reductions(place: Place) -> None:
    def body(example: Any) -> None:
        shape, chosen, keep, number = example
        axes = tuple(sorted({a % len(shape) for a in chosen})) if shape else ()
        array = np.random.default_rng(number).integers(-9, 9, shape).astype(np.int32)
        got = calor.sum(calor.asarray(array), axis=axes, keepdims=keep, dtype=int32).numpy()
        want = array.sum(axis=axes, keepdims=keep, dtype=np.int32)
        assert got.shape == want.shape, f"{got.shape}, not {want.shape}"
        assert (got == want).all(), f"{got}\nnot\n{want}\nfor axes {axes} of {array!r}"

    axes = st.lists(st.integers(0, 3), max_size=3)
    searched(place, st.tuples(SHAPES, axes, st.booleans(), st.integers(0, 99)), body)


def _products(place: Place) -> None:
    def body(example: Any) -> None:
        m, k, n, batch, number = example
        rng = np.random.default_rng(number)
        a = rng.integers(-4, 5, (*batch, m, k)).astype(np.float32)
        b = rng.integers(-4, 5, (*batch, k, n)).astype(np.float32)
        got = (calor.asarray(a) @ calor.asarray(b)).numpy()
        assert (got == a @ b).all(), f"{a!r} @ {b!r} gave {got!r}"

    side = st.integers(0, 7)
    batch = st.lists(st.integers(0, 3), max_size=2).map(tuple)
    searched(place, st.tuples(side, side, side, batch, st.integers(0, 99)), body)


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
