"""Neighbours: what an op writes beyond its results is in the memory of other tensors.

Memory that is freed comes again, so tensors are made side by side, every other one is freed, and an
op then has its results where these were. What stays is compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import calor

from ..rows.judging import put
from ..rows.tables.sizes import SIZES, Sized
from .base import Array, Check, Place, plain_type
from .sizes import kinds_of, same, text_of

CONTRACT = "an op writes its results and nothing beside them"
# Lengths of which results fill what is allocated, and of which they leave a part.
_LENGTHS = (16, 64, 256, 1024, 65)
_BESIDE, _TURNS = 12, 2


def neighbours() -> Iterator[Check]:
    """Yield a check of each row of sizes, and of the first elements of an order."""
    for row in (*SIZES, *_FIRST):
        kinds = kinds_of(row)
        yield Check(
            kind="memory",
            subject="-".join(filter(None, ("beside", row.op, row.name))),
            tier="full",
            contract=CONTRACT,
            run=_at(row),
            text=partial(text_of, row),
            op=row.op,
            dtype=kinds[0],
            dtypes=kinds,
        )


def _some(shape: Callable[[int], tuple[int, ...]]) -> Any:
    return lambda rng, n: [rng.permutation(int(np.prod(shape(n)))).reshape(shape(n)).astype(
        np.float32)]  # fmt: skip


_FIRST = [
    Sized("sort", f"first-{k}", (64,), _some(lambda n: (16, n)),
          lambda x, k=k: calor.topk(x, k, axis=1)[0],
          lambda x, k=k: np.sort(x, 1)[:, ::-1][:, :k], least=k)
    for k in (1, 4, 16)
]  # fmt: skip


def _at(row: Sized) -> Callable[[Place], None]:
    def run(place: Place) -> None:
        step: Any = calor.jit(row.run) if not place.interactive else row.run
        for n in _LENGTHS:
            if n > max(row.sizes) * 4:
                continue
            n = max(n, row.least)
            arrays = row.draw(np.random.default_rng([place.seed, n]), n)
            want = np.asarray(row.meaning(*arrays))
            # The first call makes what a program keeps.
            same(step(*put(arrays)).numpy(), want, row.bound)
            for turn in range(_TURNS):
                _beside(partial(step, *put(arrays)), want, row.bound, f"length {n}", turn)

    return run


def _beside(step: Callable[[], Any], want: Array, bound: float, what: str, turn: int) -> None:
    dtype = plain_type()
    count = max(want.size * _result_size(want) // dtype.itemsize, 1)
    numbers = (np.arange(count) * 7 + turn) % 101
    beside = [calor.asarray(((numbers + k) % 101).astype(dtype.numpy)) for k in range(_BESIDE)]
    left = {k: beside[k] for k in range(0, _BESIDE, 2)}
    del beside
    made = [step() for _ in range(_BESIDE // 2)]
    for got in made:
        same(got.numpy(), want, bound)
    for k, tensor in left.items():
        wrong = tensor.numpy() != ((numbers + k) % 101).astype(dtype.numpy)
        assert not wrong.any(), (
            f"{what}: {np.count_nonzero(wrong)} numbers of another tensor were written over, the "
            f"first of {wrong.size} at {int(np.argmax(wrong))}"
        )


def _result_size(want: Array) -> int:
    """Return the bytes of an element of a result, which are fewer than those of its meaning."""
    size: int = want.dtype.itemsize
    return min(size, 4) if want.dtype.kind == "f" else size
