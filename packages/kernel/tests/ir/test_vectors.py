"""Vectors split into pieces compute what they computed whole."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from calor.dtypes import DType, float32
from calor_interpreter.verify import verify
from calor_kernel import language as kl
from calor_kernel.ir.passes import optimize, split_vectors
from calor_kernel.language.builder import current
from calor_kernel.language.values import Number

from .kernels import CASES

WIDTHS: dict[str, Callable[[DType], Sequence[int]]] = {
    "scalars": lambda dtype: (1,),
    "pairs": lambda dtype: (1, 2),
    "up to 4": lambda dtype: (2, 3, 4),
    "powers": lambda dtype: (1, 2, 4, 8, 16),
    "16 bytes": lambda dtype: [n for n in (1, 2, 4, 8, 16) if n * dtype.itemsize <= 16],
    "bytes only": lambda dtype: (1, 4, 8) if dtype.itemsize == 1 else (1,),
}
VECTORS = [name for name in CASES if " to " not in name and " from " not in name]


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("widths", WIDTHS)
def test_pieces_compute_what_the_whole_does(name: str, widths: str) -> None:
    case = CASES[name]
    kernel = verify(case.build())
    split = verify(split_vectors(kernel, WIDTHS[widths]))
    for value in (v for o in split.body.walk() for v in (*o.operands, *o.results)):
        assert value.type.width == 1 or value.type.width in WIDTHS[widths](value.type.dtype)
    np.testing.assert_array_equal(case.run(split), case.run(kernel))
    np.testing.assert_array_equal(case.run(verify(optimize(split))), case.run(kernel))


def waited(value: Number) -> Number:
    """Return the results of a group of matrix products, a whole vector."""
    return current().emit("mma_result", (value,), (value.type,))[0]


@kl.kernel
def chained(x: kl.InOut) -> None:
    x.store(0, waited(waited(x.load(0, 8))))


def test_whole_vectors_are_passed_on() -> None:
    built = chained.build([kl.Buffer(float32)], cube=(1, 1, 1))
    split = optimize(verify(split_vectors(built, WIDTHS["16 bytes"])))
    first, second = (o for o in split.body.walk() if o.name == "mma_result")
    assert second.operands == first.results
