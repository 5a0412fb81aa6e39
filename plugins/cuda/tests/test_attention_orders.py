"""Does attention whose rows come before its heads compile without spills?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from calor.dtypes import DType, bfloat16, float32
from calor.specs import spec
from calor_kernel.contract.work import Refusal, Request, View
from calor_kernel.library.attention.delta_launch import gradient_of_result
from calor_kernel.library.attention.lowering import attention, gradient
from calor_kernel.library.attention.problem import TURNED

from .test_any_products import check_text, request

# The dtype, its precision, batch, heads, key heads, queries, keys, features, and the kernels.
CASES = [
    (float32, "highest", (64, 6, 6, 8, 8, 4), ("attend_split", "gradient_split")),
    (bfloat16, "highest", (1, 12, 4, 1, 1024, 64), ("attend_split", "gradient_split")),
    # As many rows of a key head as a unit has registers for; of many, rows of a tile.
    (bfloat16, "highest", (2, 28, 4, 1, 577, 128), ("attend_split", "gradient_split")),
    (bfloat16, "highest", (8, 28, 4, 1, 577, 128), ("attend_mma", "gradient_split")),
    (bfloat16, "highest", (8, 36, 4, 1, 577, 128), ("attend_mma", "_gradient_mma")),
    *(
        pytest.param(dtype, precision, (8, 12, 12, 256, 256, 64), names, marks=pytest.mark.slow)
        for dtype, precision, names in (
            (bfloat16, "highest", ("attend_tma", "_gradient_tma")),
            (float32, "high", ("attend_mma", "_gradient_mma")),
        )
    ),
]


@pytest.mark.parametrize(("dtype", "precision", "sizes", "names"), CASES, ids=str)
def test_turned_results(
    compiler: Any, dtype: DType, precision: str, sizes: Any, names: Any
) -> None:
    n, heads, key_heads, queries, keys, width = sizes
    info = request(dtype, (8, 8, 8), (True, True), False).info
    q, k = (n, heads, queries, width), (n, key_heads, keys, width)
    said = {"causal": False, "scale": 0.125, "precision": precision}
    views = [View.dense(spec(shape, dtype)) for shape in (q, k, k)]
    numbers = spec(q[:3], float32)
    # What rounding drops, which only the gradient reads, is dense.
    rest = (spec(q, dtype),) if dtype is bfloat16 else ()
    asked = Request(
        "attention",
        {**said, "orders": (TURNED, None, None)[: 2 + len(rest)]},
        tuple(views),
        (spec(q, dtype), numbers, *rest),
        info,
    )
    upstream = View(q, (queries * heads * width, width, heads * width, 1), dtype)
    given = upstream, View.dense(numbers), View.dense(numbers), *views
    results = tuple(spec(shape, dtype) for shape in (q, k, k))
    back = Request("attention_gradient", {**said, "orders": (TURNED,) * 3}, given, results, info)
    made = [(attention(asked), names[0]), (gradient(back), names[1])]
    if names[1] == "gradient_split":
        # The result of the forward pass in the place of delta, in the order of the former.
        given = upstream, upstream, View.dense(numbers), *map(View.dense, rest), *views
        asked = replace(back, attributes={**back.attributes, "rest": bool(rest)}, inputs=given)
        made.append((gradient_of_result(asked), names[1]))
    for works, name in made:
        assert not isinstance(works, Refusal)
        for launch in works[0].launches:
            made_by = launch.build.function.name
            assert made_by.endswith(name) or made_by.startswith("join")
            check_text(compiler, launch, info)
