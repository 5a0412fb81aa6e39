"""What is undefined in WGSL is tried by kernels: each answer decides alone."""

from typing import Any

import numpy as np
import pytest

from calor.dtypes import float32
from calor_kernel.language import Buffer, kernel
from calor_wgpu.passes import BEYOND
from calor_wgpu.probes import undefined
from calor_wgpu.wgsl import WGSL, print_wgsl

MINUS = 1 << 31


@pytest.mark.parametrize("robust", [True, False])
@pytest.mark.parametrize("wrong", [None, 4, 5, 6, 7, 8, "vector"])
def test_each_answer_counts(robust: bool, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def compute(number: int, text: str, data: bytes) -> memoryview:
        asked.append(text)
        made = np.frombuffer(data, np.uint32).copy()
        vectors = "vec4" in text
        assert made[0] == (BEYOND // 4 if vectors else BEYOND)
        if vectors:
            made[8:12] = 0, 0, 0, int(wrong == "vector")
        else:
            made[4:9] = 0, 0, MINUS, MINUS, 0
            if isinstance(wrong, int):
                made[wrong] ^= MINUS
        return made.data

    monkeypatch.setattr(undefined, "compute", compute)
    found = undefined.seen(3, robust)
    assert found.zeros == (robust and wrong not in (8, "vector"))
    assert found.extremes == (wrong not in (4, 5, 6, 7))
    # What may do harm is not tried.
    assert robust == any("seen[seen[0]" in text for text in asked)


@pytest.mark.parametrize("changes", ["", "reassociates"])
def test_extremes_are_functions_of_the_language_where_they_order_zeros(changes: str) -> None:
    @kernel
    def extremes(x: Any, y: Any) -> None:
        y[0], y[1] = max(x[0], x[1]), min(x[0], x[1])

    built = extremes.build([Buffer(float32), Buffer(float32)])
    text = print_wgsl(built, WGSL(changes=changes, extremes=True))
    own = "fn_exact_float32({})" if changes else "{}"
    for name in ("max", "min"):
        known = f"(a == {own.format('a')}) & (b == {own.format('b')})"
        assert f"return select(a + b, {name}(a, b), {known});" in text
    assert "max(a, b)" not in print_wgsl(built, WGSL(changes=changes))
