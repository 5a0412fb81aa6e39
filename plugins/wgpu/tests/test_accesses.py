"""Accesses without pointers: small elements share words, and masks are branches."""

from typing import Any

import numpy as np
import pytest

from calor.dtypes import DType, bfloat16, bool_, float16, int8, int32, int64, uint8, uint16
from calor_interpreter.launch import run_on_lanes
from calor_interpreter.verify import verify
from calor_kernel.ir.passes import optimize, split_vectors
from calor_kernel.language import (
    Buffer,
    Scalar,
    absolute_position,
    barrier,
    kernel,
    pack,
    shared,
    unit_position,
)
from calor_wgpu.passes import lower_accesses


@kernel
def moved(x: Any, y: Any, n: Any, *, width: int) -> None:
    i = absolute_position() * width
    left = n - i
    if left > 0:
        inside = pack([left > lane for lane in range(width)])
        y.store(i, x.load(i, width, mask=inside, other=x[0]), mask=inside)


@pytest.mark.parametrize("dtype", [bool_, int8, uint8, uint16, float16, bfloat16, int32], ids=str)
@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize(("start", "align"), [(0, 16), (3, 0)])
def test_elements_are_moved(dtype: DType, width: int, start: int, align: int) -> None:
    n = 29
    x = np.random.default_rng(0).integers(0, 2, 64).astype(np.float32)
    if dtype is not bool_:
        x = x * np.arange(64) - (dtype.kind != "uint") * 20
    data = x.astype(dtype.numpy)
    into = np.ones(64, dtype.numpy)
    expected = into.copy()
    expected[start : start + n] = data[start : start + n]
    signature: list[Any] = [Buffer(dtype, False, align), Buffer(dtype, True, align), Scalar(int64)]
    built = moved.build(signature, width=width, cube=(4, 1, 1))
    widths = (1, 4 // dtype.itemsize) if dtype.itemsize < 4 else (1, 4)
    made = verify(lower_accesses(split_vectors(optimize(built), lambda dtype: widths)))
    assert not any(o.operands[2:] for o in made.body.walk() if o.name in ("load", "store"))
    shown = [a.view(np.uint32) if dtype.itemsize < 4 else a for a in (data, into)]
    run_on_lanes(made, (-(-n // (4 * width)), 1, 1), [*shown, n, start, start])
    np.testing.assert_array_equal(into.view(np.uint8), expected.view(np.uint8))


@kernel
def exchanged(x: Any, y: Any) -> None:
    at = unit_position()
    held = shared(8, bool_)
    held[at] = x[at] > 0
    barrier()
    y[at] = held[at ^ 1].to(int32)


def test_bools_that_units_share_are_words() -> None:
    made = lower_accesses(exchanged.build([Buffer(int32), Buffer(int32)], cube=(8, 1, 1)))
    assert bool_ not in {memory.type.dtype for memory in verify(made).memories}
    x, y = np.array([0, 3, 1, 0, 2, 2, 0, 0], np.int32), np.zeros(8, np.int32)
    run_on_lanes(made, (1, 1, 1), [x, y, 0, 0])
    assert y.tolist() == [1, 0, 0, 1, 1, 1, 0, 0]
