"""Are gradients of attention right where cubes share the loop of a tile, and when do they?"""

from dataclasses import replace

import pytest

from calor.dtypes import bfloat16, float32
from calor_interpreter.device import LanesDevice
from calor_kernel.library.attention import gradient_parts, products
from calor_kernel.library.attention.lowering import gradient
from calor_kernel.runtime.backend import KernelBackend

from .test_attention import NAMES, Row, check_backward
from .test_mma import INFO, request_of

# Few queries beside many keys, few keys beside many queries; parts of a causal pass without work.
WIDE = replace(INFO, cores=132)
ROWS = [
    Row(1, 2, 1, 66, 600, 24, 32),
    Row(1, 4, 2, 600, 20, 32, 48),
    Row(1, 2, 1, 600, 7, 32, 32, bias=(1, 2, 1, 7)),
    Row(1, 2, 2, 70, 700, 16, 16, causal=True),
    Row(1, 1, 1, 17, 520, 136, 160, scale=0.05),
    Row(1, 2, 1, 700, 50, 16, 16, causal=True, mask=(1, 2, 700, 50)),
]


def names(works):
    return [launch.build.function.name for launch in works[0].launches]


@pytest.mark.parametrize(
    ("row", "dtype"),
    [*((row, "bfloat16") for row in ROWS), *((ROWS[i], "float32") for i in (0, 2, 5))],
    ids=str,
)
def test_gradient(monkeypatch, row, dtype):
    # Rows of any width are computed in tiles, as those of many keys are.
    monkeypatch.setattr(products, "_KEYS", 0)
    assert names(gradient(request_of(row, NAMES[dtype], 3, info=WIDE)))[-1] == "join_parts"
    backend = KernelBackend("lanes", lambda index: LanesDevice(WIDE))
    check_backward(backend, row, dtype, "attention_gradient")


def test_results_of_any_alignment():
    backend = KernelBackend("lanes", lambda index: LanesDevice(WIDE))
    check_backward(backend, Row(1, 1, 1, 70, 300, 7, 5), "float32", "attention_gradient")


@pytest.mark.parametrize(
    ("row", "dtype", "fill"),
    [
        (Row(1, 64, 64, 66, 600, 64, 64), bfloat16, 0.25),
        (Row(1, 2, 1, 66, 80, 64, 64), bfloat16, 0.25),
        (Row(1, 2, 1, 66, 600, 64, 64), bfloat16, 0.0),
        (Row(1, 64, 64, 66, 600, 64, 64), float32, 0.25),
    ],
    ids=["many heads", "short loops", "never", "without matrix instructions"],
)
def test_whole_loops(monkeypatch, row, dtype, fill):
    monkeypatch.setattr(gradient_parts, "FILL", fill)
    assert "join_parts" not in names(gradient(request_of(row, dtype, 3, info=WIDE)))
