"""Products, elementwise work, reductions and rows at sizes that fill a GPU, all of it ready.

A call does the work several times and waits once, as programs do; times are of one piece of work.
Operands are in the GPU's memory and are the same at each call. Float32 is computed as float32 by
everybody, and rows of tf32 as TF32 by everybody who has it. Torch computes on CUDA.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from harness import Case
from suites._gpu import gpu_case, normal, often
from suites._operations import library

os.environ["CALOR_KEEP"] = "0"

Function = Callable[..., Any]
Shapes = list[tuple[int, ...]]
_NEAR = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2, "tf32": 3e-3}
# Few rows, few columns, a short and a long summed axis, and several products.
_OTHERS: list[Shapes] = [
    [(128, 4096), (4096, 4096)],
    [(4096, 4096), (4096, 128)],
    [(8192, 512), (512, 8192)],
    [(256, 16384), (16384, 4096)],
    [(16, 1024, 1024), (16, 1024, 1024)],
    [(64, 512, 64), (64, 64, 512)],
]


def cases(device: str) -> list[Case]:
    found: list[Case] = []
    for dtype, sizes in (
        ("float32", (1024, 4096)),
        ("bfloat16", (1024, 4096, 8192)),
        ("float16", (4096, 8192)),
        ("tf32", (1024, 4096, 8192)),
    ):
        for n in sizes:
            shapes: Shapes = [(n, n), (n, n)]
            found.append(_case(device, f"matmul {dtype} {n}", shapes, _product, _product, dtype))
    for dtype in ("bfloat16", "tf32"):
        factors: Shapes = [(4096, 4096), (4096, 4096)]
        name = f"matmul {dtype} 4096 by rows"
        found.append(_case(device, name, factors, _by_rows, _by_rows, dtype))
    for shapes in _OTHERS:
        name = f"matmul bfloat16 {' by '.join('x'.join(map(str, s)) for s in shapes)}"
        found.append(_case(device, name, shapes, _product, _product, "bfloat16"))
    for n in (10**5, 10**6, 10**7, 10**8):
        found.append(_case(device, f"add {n}", [(n,), (n,)], _sum, _sum))
        found.append(_case(device, f"sum {n}", [(n,)], lambda x: x.sum(), lambda x: x.sum()))
    square: Shapes = [(8192, 8192)]
    found += [
        _case(device, "sum of rows 8192", square, lambda x: x.sum(1), lambda x: x.sum(1)),
        _case(device, "sum of columns 8192", square, lambda x: x.sum(0), lambda x: x.sum(0)),
        _case(device, "exp 8192", square, _calor("exp"), _torch("exp")),
        _case(device, "softmax 8192", square, _calor("softmax", axis=1), _torch("softmax", dim=1)),
        _case(
            device,
            "cumsum 8192",
            square,
            _calor("cumulative_sum", axis=1),
            _torch("cumsum", dim=1),
            near=1e-4,
        ),
    ]
    return found


def _product(a: Any, b: Any) -> Any:
    return a @ b


def _by_rows(a: Any, b: Any) -> Any:
    return a @ b.T


def _sum(a: Any, b: Any) -> Any:
    return a + b


def _calor(name: str, **options: Any) -> Function:
    return lambda x: getattr(library("calor"), name)(x, **options)


def _torch(name: str, **options: Any) -> Function:
    return lambda x: getattr(library("torch"), name)(x, **options)


def _case(
    device: str,
    name: str,
    shapes: Shapes,
    ours: Function,
    torchs: Function,
    dtype: str = "float32",
    near: float | None = None,
) -> Case:
    flops = float(np.prod(shapes[0])) * (shapes[-1][-1] if "matmul" in name else 1)
    units = often(2e12 if "matmul" in name else 2e9, flops)
    high = dtype == "tf32"

    def mine(*operands: Any) -> Any:
        with library("calor").matmul_precision("high" if high else "highest"):
            return ours(*operands)

    def theirs(*operands: Any) -> Any:
        library("torch").backends.cuda.matmul.allow_tf32 = high
        return torchs(*operands)

    return gpu_case(
        device,
        name,
        normal(*shapes),
        mine,
        theirs,
        near=near or _NEAR[dtype],
        units=units,
        dtype="float32" if high else dtype,
    )
