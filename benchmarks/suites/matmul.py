"""Matrix products of float32, square and of a transformer's shapes, results ready.

The floor is the measured ceiling of fused multiply-adds on one core of the machine named in the
result (238 GFLOP/s with AVX-512 on Zen 5); divide by the threads. Both operands are new to every
call here: nothing of them is kept packed, as a layer's weights would be.
"""

import os
from typing import Any

from harness import Case
from suites._operations import normal, operation

os.environ["CALOR_KEEP"] = "0"

_FMA = 238e9
_SQUARES = (256, 512, 1024, 2048, 4096)
_SHAPES = ((128, 768, 3072), (128, 3072, 768), (1, 4096, 4096), (8, 4096, 4096), (33, 100, 77))


def cases(device: str) -> list[Case]:
    return [_case(device, *shape) for shape in (*((n, n, n) for n in _SQUARES), *_SHAPES)]


def _product(a: Any, b: Any) -> Any:
    return a @ b


def _case(device: str, m: int, k: int, n: int) -> Case:
    return operation(
        device,
        f"matmul {m}x{k}x{n}",
        normal((m, k), (k, n)),
        _product,
        torch=_product,
        jax=_product,
        numpy=_product,
        relative=1e-4,
        floor=2 * m * n * k / _FMA,
    )
