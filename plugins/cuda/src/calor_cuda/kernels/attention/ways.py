"""The ways of attention by TMA and warp-group instructions: rows of its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from calor_cuda.kernels.attention.warpgroup_tma_launch import (
    forward_by_tma,
    forward_refusal,
    gradient_refusal,
    gradients_by_tma,
)
from calor_kernel.contract.ways import Row, Way
from calor_kernel.contract.work import Request, Work
from calor_kernel.library.attention.lowering import Task
from calor_kernel.library.attention.problem import Attention


def _by_tma(
    refusal: Callable[[Attention, Request], str | None],
    make: Callable[[Attention, Request], Iterable[Work]],
) -> Row[Task]:
    way: Way[Task] = Way(
        "tma",
        lambda task, request: refusal(task.problem, request),
        lambda task, request: make(task.problem, request),
    )
    return Row("mma", way)


FORWARD: Final = (_by_tma(forward_refusal, forward_by_tma),)
GRADIENT: Final = (_by_tma(gradient_refusal, gradients_by_tma),)
