"""Findings about several GPUs for ``python -m calor doctor``: connections, and NCCL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from typing import Any

from calor_cupy.driver.codes import Codes
from calor_cupy.driver.protocol import Runtime
from calor_kernel.device.diagnosis import Look


def several(
    count: int, runtime: Runtime, codes: Codes, nccl: Callable[[], Any]
) -> Iterator[tuple[str, Look]]:
    """Yield the looks at several GPUs; ``nccl`` returns CuPy's NCCL module."""
    name = codes.name.lower()
    for a, b in combinations(range(count), 2):
        yield f"{name}:{a}, {name}:{b}", partial(_connected, a, b, runtime, codes)
    if count > 1:
        yield "NCCL", partial(_nccl, nccl)


def _connected(a: int, b: int, runtime: Runtime, codes: Codes) -> str:
    with codes.typed("asking for connections"):
        both = runtime.deviceCanAccessPeer(a, b) and runtime.deviceCanAccessPeer(b, a)
    return "they reach each other's memory" if both else "the driver copies over the host"


def _nccl(nccl: Callable[[], Any]) -> str:
    code = int(nccl().get_version())
    return f"{code // 10000}.{code % 10000 // 100}.{code % 100}"
