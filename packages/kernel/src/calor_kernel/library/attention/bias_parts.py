"""Launches of the bias gradient: the parts that blocks of scores write, and their sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from calor.dtypes import DType, bool_
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Argument, Build, Launch, Output, Request, Scratch
from calor_kernel.ir.types import Buffer
from calor_kernel.library.attention.bias import sum_parts
from calor_kernel.library.attention.problem import SIZE, Attention


@dataclass(frozen=True, slots=True)
class Target:
    """Where parts are written, and the kernels' numbers for their position."""

    argument: Argument
    declared: Buffer
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BiasParts:
    """The gradient of a bias of a shape, with 1 for each axis that broadcasts over the scores.

    ``sum_rows``, ``sum_keys``: whether it broadcasts over queries, and over keys.
    """

    problem: Attention
    shape: tuple[int, ...]
    dtype: DType

    @property
    def sum_rows(self) -> bool:
        """Whether all queries share a row of the bias."""
        return self.shape[2] != self.problem.queries

    @property
    def sum_keys(self) -> bool:
        """Whether all keys share a column of the bias."""
        return self.shape[3] != self.problem.keys

    @property
    def matrices(self) -> int:
        """The number of matrices of the bias."""
        return self.shape[0] * self.shape[1]

    def target(
        self,
        queries: int,
        keys: int,
        memory: Callable[[int, DType], Scratch],
        info: DeviceInfo,
    ) -> tuple[Target, list[Launch]]:
        """Return where blocks of queries and keys write, and the launches that follow them."""
        p = self.problem
        height = -(-p.queries // queries) if self.sum_rows else p.queries
        width = -(-p.keys // keys) if self.sum_keys else p.keys
        numbers = (p.batch, *self.shape[:2], height, width)
        if (height, width) == self.shape[2:]:
            return Target(Output(0), Buffer(self.dtype), numbers), []
        parts = memory(self.matrices * height * width, p.accumulate)
        count, units = prod(self.shape), min(info.max_units, 64)
        build = Build(
            sum_parts,
            (Buffer(p.accumulate, writable=False), Buffer(self.dtype), *(SIZE,) * 5),
            (("accumulate", p.accumulate),),
            (units, 1, 1),
        )
        arguments: tuple[Argument, ...] = (parts, Output(0), count, height, width, *self.shape[2:])
        added = self.matrices * height * width
        after = Launch(
            build,
            (-(-count // units), 1, 1),
            arguments,
            added,
            added * p.accumulate.itemsize,
            "attention bias gradient sum",
        )
        return Target(parts, Buffer(p.accumulate), numbers), [after]


def bias_parts_of(request: Request, problem: Attention) -> BiasParts:
    """Return the gradient of a request: that of its only bias."""
    (bias,) = (v for v in request.inputs[6:] if v.dtype is not bool_)
    return BiasParts(problem, bias.shape, bias.dtype)
