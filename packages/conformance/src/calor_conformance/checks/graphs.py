"""Graphs: every input and output counts, and no node is replaced by an approximation.

Errors of optimizing compilers appear in graphs of several nodes, at numbers for which the laws of
algebra fail: NaN, infinities, −0, and rounded intermediate results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import calor
from calor.dtypes import ALL, DType, as_dtype, bfloat16, float16, float32, float64

from ..rows.comparison import check
from ..rows.domains import normal, special
from ..rows.flushing import flushed, lost, nearest, zeros
from ..rows.language import exact
from .base import Array, Place, plain_array
from .contract import Contracts

contract = Contracts("graphs")


def _tensor(*numbers: float) -> Any:
    return calor.asarray(plain_array(numbers))


@contract("inputs that no node reads are given all the same", tier="compiled", looks=False)
def unused_inputs(place: Place) -> None:
    step = calor.jit(lambda a, b, c, d: (d - b, b * 2))
    for n in range(2):
        rest, twice = step(_tensor(n, 9), _tensor(1, 2), _tensor(50, 60), _tensor(7, 8 + n))
        assert (rest.tolist(), twice.tolist()) == ([6, 6 + n], [2, 4])
    last = calor.jit(lambda a, rate, b, share: b * share)
    assert last(_tensor(1, 2), 5, _tensor(3, 4), 2).tolist() == [6, 8]


@contract(
    "outputs come in their order, also the same one twice and inputs among them",
    tier="compiled",
    looks=False,
)
def order_of_outputs(place: Place) -> None:
    step = calor.jit(lambda x, y: (y - x, x, x - y, y - x, y, x))
    for n in (1, 4):
        made = [t.tolist() for t in step(_tensor(1, 2), _tensor(n, 7))]
        less, more = [1 - n, -5], [n - 1, 5]
        assert made == [more, [1, 2], less, more, [n, 7], [1, 2]], f"{made}"


@contract("results of every shape and dtype leave one graph", tier="compiled", looks=False)
def outputs_of_every_form(place: Place) -> None:
    step = calor.jit(lambda x: (calor.max(x), x[:0], calor.reshape(x, (2, 1, 2)), x > 2, x[3]))
    most, none, square, more, last = step(_tensor(1, 2, 3, 4))
    assert (most.shape, most.item()) == ((), 4)
    assert (none.shape, none.tolist()) == ((0,), [])
    assert square.tolist() == [[[1, 2]], [[3, 4]]]
    assert more.tolist() == [False, False, True, True]
    assert (last.shape, last.item()) == ((), 4)


@contract("joins of reordered operands, in another shape", tier="compiled", looks=False)
def joins_of_reordered(place: Place) -> None:
    rng = np.random.default_rng(place.seed)
    for axis in range(2):
        for order in ((0, 2, 1), (1, 0, 2), (2, 1, 0)):
            arrays = [rng.integers(-9, 9, (2, 4, 6)) for _ in range(3)]
            a, b, c = (calor.asarray(plain_array(x)) for x in arrays)

            def step(*xs: Any, order: Any = order, axis: int = axis) -> tuple[Any, ...]:
                rows = [calor.reshape(calor.permute_dims(x, order), (6, 8)) for x in xs]
                return calor.concat(rows, axis=axis), calor.concat((xs[0] + 1, xs[1]), axis=axis)

            made = calor.jit(step)(a, b, c)
            rows = [np.reshape(np.transpose(x, order), (6, 8)) for x in arrays]
            wants = np.concatenate(rows, axis), np.concatenate((arrays[0] + 1, arrays[1]), axis)
            for got, want in zip(made, wants, strict=True):
                assert (got.numpy() == want).all(), f"{order}, axis {axis}: {got.numpy()}"


# Each is computed op by op in NumPy, in the dtype itself.
_EXPRESSIONS: dict[str, Callable[[Any, Any], Any]] = {
    "x * 0": lambda x, y: x * 0,
    "x - x": lambda x, y: x - x,
    "x / x": lambda x, y: x / x,
    "x + 0": lambda x, y: x + 0,
    "0 - x": lambda x, y: 0 - x,
    "-(0 - x)": lambda x, y: -(0 - x),
    "(x + 1) - 1": lambda x, y: (x + 1) - 1,
    "(x + y) - y": lambda x, y: (x + y) - y,
    "(x * 3) / 3": lambda x, y: (x * 3) / 3,
    "x * y + x": lambda x, y: x * y + x,
    "x * y - y * x": lambda x, y: x * y - y * x,
    "x * y / y": lambda x, y: x * y / y,
    "(x + y) * (x - y)": lambda x, y: (x + y) * (x - y),
    "x + x + x": lambda x, y: x + x + x,
    "x / 3": lambda x, y: x / 3,
}


@contract(
    "a graph of several ops rounds after each of them, and knows NaN, infinities and −0",
    tier="compiled",
    of=(float16, bfloat16, float32, float64),
    looks=False,
)
def each_op_by_itself(place: Place, dtype: DType) -> None:
    x, y = _operands(dtype, place.seed)
    step = calor.jit(lambda a, b: [f(a, b) for f in _EXPRESSIONS.values()])
    made = step(calor.asarray(x), calor.asarray(y))
    flushes, given = place.flushes, [(x, y)]
    if dtype in flushes:
        given.append((flushed(x, flushes), y))
    with np.errstate(all="ignore"):
        for (name, f), tensor in zip(_EXPRESSIONS.items(), made, strict=True):
            got, wants = tensor.numpy(), [np.asarray(f(*g), dtype.numpy) for g in given]
            wants += [z for w in wants for z in zeros(w, dtype, flushes)]
            least = lost(dtype, flushes)
            check(got, nearest(got, wants), dtype, exact, what=name, least=least)


def _operands(dtype: DType, seed: int) -> tuple[Array, Array]:
    """Return ordinary numbers, and special numbers paired with ordinary ones."""
    rng = np.random.default_rng(seed)
    ends = special(dtype)
    draw = normal().draw
    x = np.concatenate([ends, draw(rng, dtype, (200,))])
    return x, draw(rng, dtype, x.shape)


@contract("an op of two dtypes computes in the one that holds the numbers of both", tier="full")
def two_dtypes(place: Place) -> None:
    info = place.plain.info
    there = [t for t in ALL if t.kind in ("int", "uint", "float", "complex") and
             info.supports("add", t) and info.supports("cast", t)]  # fmt: skip
    for a in there:
        for b in there:
            wanted = _holding(a, b)
            if wanted is None or wanted not in there:
                continue
            x, y = (calor.asarray(np.array([1, 3], t.numpy)) for t in (a, b))
            made = place.call(lambda s, t: s + t, x, y)
            assert made.dtype is wanted, f"{a.name} + {b.name} is {made.dtype.name}"
            assert made.tolist() == [2, 6], f"{a.name} + {b.name}: {made}"


def _holding(a: DType, b: DType) -> DType | None:
    """Return the dtype in which two are added, None where other rules than NumPy's hold."""
    kinds = {a.kind, b.kind}
    alike = len(kinds) == 1 or kinds in ({"int", "uint"}, {"float", "complex"})
    if not alike or bfloat16 in (a, b):
        return None
    found = as_dtype(np.result_type(a.numpy, b.numpy))
    return found if found.kind in kinds else None


CHECKS = contract.checks
