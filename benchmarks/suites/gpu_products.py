"""Products of matrices of every type that matrix units take, as a busy GPU computes them.

A call runs CUDA graphs of several products for both libraries: calor's plans are graphs, torch's
calls are captured. So no case is the time of Python, and a sample keeps the GPU at work for some
milliseconds, at the clock of a busy one. The products of a graph are those of a few left operands
with a few right ones. Factors of float8 are multiplied by ``torch._scaled_mm`` with scales of one
and its faster sums, those of int8 by ``torch._int_mm``; both have a left operand along its rows
and a right one along its columns. Torch computes on CUDA.
"""

import os
from functools import lru_cache
from itertools import product
from typing import Any

from harness import Case
from suites._gpu import gpu_case, normal
from suites._operations import library

os.environ["CALOR_KEEP"] = "0"

# How often a sample does a product of so many multiplications and additions, and at least.
_WORK = {"float32": 1e12, "tf32": 7e12}
_MOST_WORK, _LEAST, _MOST = 1.4e13, 16, 4096
# How many operands a graph has of each side: more than three launches are a graph.
_FEW, _MANY = 2, 4
_SMALL = 2e10
_NEAR = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2, "tf32": 3e-3, "int8": 0.0}
# Sums of float8 products are of about 14 bits, and the results bfloat16.
_NEAR |= {"float8_e4m3fn": 2e-2, "float8_e5m2": 2e-2}
_RESULTS = {"float8_e4m3fn": "bfloat16", "float8_e5m2": "bfloat16", "int8": "int32"}
# What normal numbers are multiplied with before they become integers.
_SPREAD = 30
# Rows, summed axis and columns: few rows, few columns, a short and a long summed axis.
_OTHERS = [
    (64, 4096, 4096),
    (128, 4096, 4096),
    (4096, 4096, 128),
    (512, 8192, 2048),
    (8192, 512, 8192),
    (256, 16384, 4096),
]


def cases(device: str) -> list[Case]:
    squares = {
        "float32": (1024, 4096),
        "tf32": (1024, 4096, 8192),
        "bfloat16": (1024, 2048, 4096, 8192),
        "float16": (1024, 4096, 8192),
    }
    bytes_ = {
        "float8_e4m3fn": (1024, 4096, 8192),
        "float8_e5m2": (4096,),
        "int8": (1024, 4096, 8192),
    }
    sizes = [(dtype, (n, n, n)) for dtype, given in squares.items() for n in given]
    found = [case(device, dtype, given, rows) for dtype, given in sizes for rows in (False, True)]
    found += [case(device, "bfloat16", given, False) for given in _OTHERS]
    return found + [case(device, d, (n, n, n), True) for d, given in bytes_.items() for n in given]


def case(device: str, dtype: str, sizes: tuple[int, int, int], rows: bool) -> Case:
    """Return the product of ``x`` (m, k) with ``y`` (k, n), or along its ``rows`` (n, k)."""
    m, k, n = sizes
    flops = 2.0 * m * k * n
    sides = _MANY if flops < _SMALL else _FEW
    often = min(_MOST, max(_LEAST, int(_WORK.get(dtype, _MOST_WORK) / flops)))
    size = f"{m}" if m == k == n else f"{m}x{k}x{n}"

    def ours(*given: Any) -> Any:
        with library("calor").matmul_precision("highest" if dtype == "float32" else "high"):
            return _all(_ours, given, dtype, rows)

    def theirs(*given: Any) -> Any:
        library("torch").backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        return _all(_theirs, given, dtype, rows)

    return gpu_case(
        device,
        f"{dtype} {size}{' by rows' if rows else ''}",
        normal((m, k), (n, k) if rows else (k, n)),
        ours,
        theirs,
        near=_NEAR[dtype],
        units=often // sides**2 * sides**2,
        before=lambda given: _operands("calor", given, dtype, sides),
        torch_before=lambda given: _operands("torch", given, dtype, sides),
        captured=sides**2,
    )


def _operands(name: str, given: Any, dtype: str, sides: int) -> list[Any]:
    """Return the left operands and the right ones: the rows of each in several orders."""
    owner = library(name)
    kind = getattr(owner, "float32" if dtype == "tf32" else dtype)
    spread = _SPREAD if dtype == "int8" else 1
    turned = [owner.concat([x[t:], x[:t]]) * spread for x in given for t in range(sides)]
    return [x.astype(kind) if name == "calor" else x.to(kind) for x in turned]


def _all(multiply: Any, given: Any, dtype: str, rows: bool) -> Any:
    half = len(given) // 2
    return [multiply(x, y.T if rows else y, dtype) for x, y in product(given[:half], given[half:])]


def _ours(x: Any, y: Any, dtype: str) -> Any:
    calor = library("calor")
    return calor.matmul(x, y, dtype=getattr(calor, _RESULTS[dtype])) if dtype in _RESULTS else x @ y


def _theirs(x: Any, y: Any, dtype: str) -> Any:
    torch = library("torch")
    if dtype == "int8":
        return torch._int_mm(x, y)
    if dtype in _RESULTS:
        kind, one = getattr(torch, _RESULTS[dtype]), _one()
        return torch._scaled_mm(x, y, one, one, out_dtype=kind, use_fast_accum=True)
    return x @ y


@lru_cache(1)
def _one() -> Any:
    return library("torch").ones((), device="cuda")
