"""Sizes: lengths around blocks, tiles and grids, and graphs of many operands, results and nodes.

The rows of values are small, so that oracles can be slow and differences are readable. Errors of a
device that computes in blocks, or counts in 16 bits, appear beyond them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import calor
from calor.dtypes import DType, as_dtype, float32

from ..rows.definitions import source_of
from ..rows.judging import put
from ..rows.tables.sizes import SIZES, Sized
from .base import Array, Check, Place, plain_array
from .contract import Contracts

contract = Contracts("sizes")
OPERANDS = 100
NODES = 800


def sizes() -> Iterator[Check]:
    """Yield checks of each row at each of its lengths."""
    for row in SIZES:
        for n in row.sizes:
            yield _check(row, n)


def _check(row: Sized, n: int) -> Check:
    kinds = kinds_of(row)
    return Check(
        kind="sizes",
        subject="-".join(filter(None, (row.op, row.name, str(n)))),
        tier="full",
        contract="an op is right at every size, whatever a device computes at a time",
        run=_at(row, n),
        text=partial(text_of, row),
        op=row.op,
        nbytes=n * max(d.itemsize for d in kinds),
        dtype=kinds[0],
        dtypes=kinds,
    )


def text_of(row: Sized) -> str:
    """Return the definition of a row of sizes."""
    return "\n".join([f"{row.bound}", *map(source_of, (row.draw, row.run, row.meaning))])


def kinds_of(row: Sized) -> tuple[DType, ...]:
    """Return the dtypes of the operands of a row of sizes."""
    arrays = row.draw(np.random.default_rng(0), 8)
    kinds = [as_dtype(a.dtype) for a in arrays]
    return tuple(dict.fromkeys(sorted(kinds, key=lambda d: d is not float32)))


def _at(row: Sized, n: int) -> Any:
    def run(place: Place) -> None:
        arrays = row.draw(np.random.default_rng([place.seed, n]), n)
        got = place.call(row.run, *put(arrays)).numpy()
        same(got, np.asarray(row.meaning(*arrays)), row.bound)

    return run


def same(got: Array, want: Array, bound: float) -> None:
    """Raise AssertionError with the first element whose error exceeds the bound."""
    assert got.shape == want.shape, f"{got.shape}, not {want.shape}"
    if bound:
        wrong = ~(np.abs(got - want) <= bound * np.max(np.abs(want), initial=0.0))
    else:
        wrong = got != want
    if wrong.any():
        at = np.unravel_index(np.argmax(wrong), got.shape)
        raise AssertionError(
            f"{got[at]!r} at {tuple(map(int, at))}, not {want[at]!r}; "
            f"{np.count_nonzero(wrong)} of {wrong.size} are off"
        )


def _tensors(count: int) -> list[Any]:
    return [calor.asarray(plain_array([n % 100, n % 7])) for n in range(count)]


@contract("a graph takes and gives as many tensors as it has", tier="full", looks=False)
def many_operands(place: Place) -> None:
    given = _tensors(OPERANDS)
    made = calor.jit(lambda *x: [a + b for a, b in pairwise(x)])(*given)
    for n, t in enumerate(made):
        want = [n % 100 + (n + 1) % 100, n % 7 + (n + 1) % 7]
        assert t.tolist() == want, f"result {n} is {t.tolist()}, not {want}"


@contract("one op takes as many operands as it is given", tier="full", op="concat", looks=False)
def many_parts(place: Place) -> None:
    made = calor.jit(lambda *x: calor.concat(x))(*_tensors(OPERANDS))
    want = [v for n in range(OPERANDS) for v in (n % 100, n % 7)]
    assert made.tolist() == want


@contract("a graph has as many nodes as it needs", tier="full", dtypes=(float32,), looks=False)
def many_nodes(place: Place) -> None:
    def chain(x: Any) -> Any:
        y = x
        for _ in range(NODES):
            y = y + x
        return y

    made = calor.jit(chain)(calor.asarray(np.array([1.0, -2.0, 0.5], np.float32)))
    assert made.tolist() == [NODES + 1.0, -2.0 * (NODES + 1), 0.5 * (NODES + 1)]


CHECKS = contract.checks
