"""Programs at many sizes: what was planned for one size serves another, and then the first again.

A device may plan a program once with sizes as unknowns, and compile kernels with what it knows of a
size: that it is one, even, a multiple of a vector, or what steps and orders it goes with. Each
program therefore meets sizes that differ in all of this, in an order in which each comes twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import calor
from calor.dtypes import float32, int64

from ..rows.judging import numpy_of, put
from ..rows.tables.sizes import SIZES as ROWS
from ..rows.tables.sizes import Sized
from .base import Array, Check, Place
from .contract import Contracts
from .sizes import kinds_of, same, text_of

contract = Contracts("sizes")
SIZES = (33, 40, 7, 64, 1500, 9, 1, 256, 33, 1000, 2)
# Of one op, at lengths below and beyond a vector, odd and even, and each of some twice.
LENGTHS = (33, 40, 7, 64, 130, 9, 12, 33, 1, 2, 40)
Program = Callable[[Any, Any, Any], Any]


def _moved(lib: Any, x: Any, y: Any) -> Any:
    return [x[::-1] - y, x[:, ::-2] * 2, x[::-3, ::-1] + 1, lib.concat([y[::-1], x[1:]], axis=0)]


def _parts(lib: Any, x: Any, y: Any) -> Any:
    n = x.shape[0]
    return [x[n // 2 :] + y[: n - n // 2], x[: n // 3 + 1, 1:] - 1, (x + y).reshape((-1,))[::2]]


def _sums(lib: Any, x: Any, y: Any) -> Any:
    return [
        lib.sum(x * y, axis=0),
        lib.sum(x, axis=1) / x.shape[0],
        lib.max(x - y, axis=0),
        lib.sum(y),
    ]


def _products(lib: Any, x: Any, y: Any) -> Any:
    return [
        lib.matmul(lib.permute_dims(x, (1, 0)), y),
        lib.matmul(x, lib.permute_dims(y, (1, 0))[:, :5]),
    ]


def _orders(lib: Any, x: Any, y: Any) -> Any:
    return [lib.sort(x, axis=0), lib.cumulative_sum(x + y, axis=0), lib.argmax(y, axis=0)]


def _joined(lib: Any, x: Any, y: Any) -> Any:
    mean = lib.sum(x, axis=0, keepdims=True) / x.shape[0]
    return [(x - mean) * y + 1, lib.maximum(x[::-1], y)[:, 1:], lib.stack([x, y], axis=1)[::-1]]


_PROGRAMS: dict[str, Program] = {
    "reversed and joined": _moved, "cut by its length": _parts, "sums": _sums,
    "products": _products, "orders": _orders, "chains": _joined,
}  # fmt: skip


@contract(
    "a program that was planned at some sizes is right at others, and at the first again",
    tier="compiled",
    dtypes=(float32, int64),
    looks=False,
)
def programs_at_many_sizes(place: Place) -> None:
    for what, program in _PROGRAMS.items():
        step: Any = calor.jit(lambda x, y, run=program: run(calor, x, y))
        for turn, n in enumerate(SIZES):
            x, y = (_whole(n, turn + k) for k in (0, 50))
            with np.errstate(all="ignore"):
                wanted = [np.asarray(w) for w in program(np, x.astype(float), y.astype(float))]
            for m, (got, want) in enumerate(
                zip(numpy_of(step(*map(calor.asarray, (x, y)))), wanted, strict=True)
            ):
                told = f"{what}, result {m} at length {n} after {SIZES[:turn]}"
                assert got.shape == want.shape, f"{told}: {got.shape}, not {want.shape}"
                wrong = np.argwhere(np.abs(got - want) > 1e-5 * (1 + np.abs(want)))
                assert not wrong.size, (
                    f"{told}: {got[tuple(wrong[0])]} at {wrong[0].tolist()}, not "
                    f"{want[tuple(wrong[0])]}; {len(wrong)} are wrong"
                )


def _whole(n: int, seed: int) -> Array:
    return np.random.default_rng([n, seed]).integers(-8, 9, (n, 6)).astype(np.float32)


def each_op() -> Iterator[Check]:
    """Yield checks of one jitted function of each op at many lengths, one after the other."""
    for row in ROWS:
        kinds = kinds_of(row)
        yield Check(
            kind="sizes",
            subject="-".join(filter(None, (row.op, row.name, "one-function"))),
            tier="compiled",
            contract="a program that was planned at some sizes is right at others",
            run=_at_lengths(row),
            text=partial(text_of, row),
            op=row.op,
            dtype=kinds[0],
            dtypes=kinds,
        )


def _at_lengths(row: Sized) -> Callable[[Place], None]:
    def run(place: Place) -> None:
        step: Any = calor.jit(row.run)
        for turn, n in enumerate(LENGTHS):
            arrays = row.draw(np.random.default_rng([place.seed, n, turn]), max(n, row.least))
            try:
                got = step(*put(arrays)).numpy()
                same(got, np.asarray(row.meaning(*arrays)), row.bound)
            except AssertionError as error:
                raise AssertionError(f"at length {n} after {LENGTHS[:turn]}: {error}") from error

    return run


CHECKS = contract.checks
