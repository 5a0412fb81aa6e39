"""The windows of a pooling: their positions, the paddings that complete them, their sizes.

Requirements: all of it follows from sizes alone; NumPy computes it when the op is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calor.errors import ArgumentError, ShapeError
from calor.functions.reductions import sum
from calor.ops import contraction as rows
from calor.ops.sources import HostArray, constant
from calor_nn.functional.conv import per_axis

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor


class Windows:
    """The windows' sizes by axis, and the paddings that make all of them fit."""

    def __init__(
        self,
        x: Tensor,
        kernel: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        rank: int,
        what: str,
    ) -> None:
        self.kernel = per_axis(kernel, rank, f"{what}: kernel_size")
        self.stride = self.kernel if stride is None else per_axis(stride, rank, f"{what}: stride")
        self.padding = per_axis(padding, rank, f"{what}: padding")
        self.dilation = per_axis(dilation, rank, f"{what}: dilation")
        if min(self.kernel) < 1 or min(self.stride) < 1 or min(self.dilation) < 1:
            raise ArgumentError(f"{what}: kernel_size, stride and dilation must be at least 1")
        if any(not 0 <= p <= k // 2 for p, k in zip(self.padding, self.kernel, strict=True)):
            raise ArgumentError(
                f"{what}: padding {self.padding} must be between 0 and half of the window "
                f"{self.kernel}"
            )
        self.sizes = x.shape[-rank:]
        self.counts = tuple(self._count(i, ceil_mode, what) for i in range(rank))
        pairs = map(self._pair, range(rank)) if ceil_mode else ((p, p) for p in self.padding)
        self.pairs = tuple(pairs)

    def _reach(self, axis: int) -> int:
        return self.dilation[axis] * (self.kernel[axis] - 1) + 1

    def _count(self, axis: int, ceil_mode: bool, what: str) -> int:
        size, before, step = self.sizes[axis], self.padding[axis], self.stride[axis]
        span = size + 2 * before - self._reach(axis)
        if span < 0 and not (ceil_mode and span > -step):
            raise ShapeError(
                f"{what}: a window of {self._reach(axis)} does not fit an axis of {size} with "
                f"padding {before}"
            )
        if not ceil_mode:
            return span // step + 1
        count = -(-span // step) + 1
        # A window that would begin in the right padding does not count.
        return count - 1 if (count - 1) * step >= size + before else count

    def _pair(self, axis: int) -> tuple[int, int]:
        before = self.padding[axis]
        used = (self.counts[axis] - 1) * self.stride[axis] + self._reach(axis)
        return before, max(used - self.sizes[axis] - before, before)

    @property
    def whole(self) -> bool:
        """Whether all windows are within x, without padding."""
        ends = zip(self.counts, self.stride, self.sizes, strict=True)
        within = all(
            (count - 1) * step + self._reach(axis) <= size
            for axis, (count, step, size) in enumerate(ends)
        )
        return within and not any(map(any, self.pairs))

    def sums(self, x: Tensor) -> Tensor:
        """Return the sums of the windows of x.

        That of a whole image is a plain reduction: it is fused as such, and its gradient is a
        broadcast.
        """
        if self.kernel == self.sizes and not any(map(any, self.pairs)):
            return sum(x, axis=tuple(range(-len(self.sizes), 0)), dtype=x.dtype, keepdims=True)
        made: Tensor = rows.window_reduce(x, **self.attributes("sum"))
        return made

    def attributes(self, kind: str) -> dict[str, Any]:
        """Return the attributes of the rows that work on these windows."""
        return {
            "kind": kind,
            "window": self.kernel,
            "stride": self.stride,
            "padding": self.pairs,
            "dilation": self.dilation,
        }

    def divisors(self, include_padding: bool) -> list[np.ndarray[Any, Any]]:
        """Return for each axis how many elements its windows count."""
        found = []
        for size, before, kernel, step, count in zip(
            self.sizes, self.padding, self.kernel, self.stride, self.counts, strict=True
        ):
            low, high = (-before, size + before) if include_padding else (0, size)
            first = np.arange(count) * step - before
            found.append(np.minimum(first + kernel, high) - np.maximum(first, low))
        return found


def baked(array: np.ndarray[Any, Any], like: Tensor) -> Tensor:
    """Return an array that follows from sizes as a constant, in the dtype of ``like``."""
    with like.device:
        made: Tensor = constant(array=HostArray.of(array.astype(like.dtype.numpy)), weak=False)
    return made
