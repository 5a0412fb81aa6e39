"""Sums of what several devices have are those of the members in their order, rounded once."""

import numpy as np
import pytest

from calor.dtypes import as_dtype
from calor_interpreter.launch import run_on_lanes
from calor_kernel.library.peer_sum import sum_of_members


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize("count", [1, 64, 133])
def test_every_member_gets_the_sum(dtype: str, count: int) -> None:
    kind = as_dtype(dtype)
    rng = np.random.default_rng(0)
    given = [(rng.standard_normal(count) * 50).astype(kind.numpy) for _ in range(4)]
    made = [np.zeros(count, kind.numpy) for _ in range(4)]
    build, chunk = sum_of_members(4, kind, 16, 16)
    keywords = dict(build.keywords)
    built = build.function.build(build.signature, cube=build.cube, counts=build.counts, **keywords)
    run_on_lanes(built, (-(-count // chunk), 1, 1), [*given, *made, count])
    wide = np.float32 if dtype in ("float16", "bfloat16") else kind.numpy
    total = given[0].astype(wide)
    for other in given[1:]:
        total = total + other.astype(wide)
    for got in made:
        assert got.tobytes() == total.astype(kind.numpy).tobytes()
