"""Pooling over one, two and three spatial axes.

Requirements: shapes and arguments are PyTorch's: input (N, C, \\*S) or (C, \\*S); ``stride`` is the
window's size unless given; with ``ceil_mode`` a last window may begin in x or its left padding and
end beyond the right one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calor.backends.selection import on_device
from calor.dtypes import int64
from calor.errors import ArgumentError, ShapeError
from calor.functions.activation import floating
from calor.functions.manipulation import reshape
from calor.functions.operands import as_tensor, pair, single, stretched
from calor.ops import contraction as rows
from calor.ops import elementwise as e
from calor.ops.composites import relu
from calor.ops.sources import HostArray, constant, iota
from calor_nn.functional.conv import Sizes, batched, per_axis, unbatched

if TYPE_CHECKING:
    from calor.functions.operands import Operand
    from calor.tensor.tensor import Tensor


def max_pool1d(
    x: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window of x (N, C, L), NaN when there is one.

    ``padding`` adds −inf at both ends, at most half a window. With ``return_indices`` a tuple
    (values, places), where a place is the flat index in the spatial axes. Of equal elements the
    first one is taken, also by the gradient.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.max_pool1d(calor.asarray([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
    [[[3.0, 2.0]]]
    """
    return _max_pool(x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 1)


def max_pool2d(
    x: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window of x (N, C, H, W); see :func:`max_pool1d`.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.max_pool2d(calor.asarray([[[1.0, 3.0], [2.0, 0.0]]]), 2).tolist()
    [[[3.0]]]
    """
    return _max_pool(x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 2)


def max_pool3d(
    x: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window of x (N, C, D, H, W); see :func:`max_pool1d`.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.max_pool3d(calor.ones((1, 1, 2, 4, 4)), 2).shape
    (1, 1, 1, 2, 2)
    """
    return _max_pool(x, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 3)


def avg_pool1d(
    x: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window of x (N, C, L).

    ``padding`` adds zeros at both ends, at most half a window; ``count_include_pad`` says whether
    they count as elements.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.avg_pool1d(calor.asarray([[[1.0, 3.0, 2.0, 0.0]]]), 2).tolist()
    [[[2.0, 1.0]]]
    """
    return _avg_pool(x, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1)


def avg_pool2d(
    x: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window of x (N, C, H, W); see :func:`avg_pool1d`.

    ``divisor_override`` is what the sums are divided by, instead of the number of elements.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.avg_pool2d(calor.asarray([[[1.0, 3.0], [2.0, 0.0]]]), 2).tolist()
    [[[1.5]]]
    """
    divisor = divisor_override
    return _avg_pool(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor, 2)


def avg_pool3d(
    x: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window of x (N, C, D, H, W); see :func:`avg_pool2d`.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.avg_pool3d(calor.ones((1, 1, 2, 2, 2)), 2).item()
    1.0
    """
    divisor = divisor_override
    return _avg_pool(x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor, 3)


def lp_pool1d(
    x: Operand,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the p-norm of each window of x (N, C, L), where x is not negative.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.lp_pool1d(calor.asarray([[[3.0, 4.0]]]), 2.0, 2).item()
    5.0
    """
    return _lp_pool(x, norm_type, kernel_size, stride, ceil_mode, 1)


def lp_pool2d(
    x: Operand,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the p-norm of each window of x (N, C, H, W), where x is not negative.

    >>> import calor
    >>> from calor.nn import functional
    >>> functional.lp_pool2d(calor.ones((1, 1, 2, 2)), 2.0, 2).item()
    2.0
    """
    return _lp_pool(x, norm_type, kernel_size, stride, ceil_mode, 2)


def max_unpool(x: Operand, indices: Tensor, /, output_size: Sequence[int]) -> Tensor:
    """Return zeros of the given spatial sizes with x at the places that a max pool returned.

    >>> import calor
    >>> from calor.nn import functional
    >>> y, places = functional.max_pool1d(calor.asarray([[[1.0, 3.0]]]), 2, return_indices=True)
    >>> functional.max_unpool(y, places, (2,)).tolist()
    [[[0.0, 3.0]]]
    """
    from calor.functions.creation import zeros
    from calor.ops.indexing import scatter_along

    x, sizes = as_tensor(x), tuple(output_size)
    lead = x.shape[: x.ndim - len(sizes)]
    if indices.shape != x.shape or len(lead) not in (1, 2):
        raise ShapeError(
            f"max_unpool: places of shape {indices.shape} and values of shape {x.shape} must "
            f"agree, with {len(sizes)} spatial axes as in the output size {sizes}"
        )
    flat = zeros((*lead, int(np.prod(sizes))), dtype=x.dtype, device=x.device)
    made = scatter_along(
        flat,
        reshape(indices, (*lead, -1)),
        reshape(x, (*lead, -1)),
        axis=len(lead),
        update="assign",
    )
    return reshape(made, (*lead, *sizes))


class _Windows:
    """Where windows lie: their sizes by axis, and the paddings that make all of them fit."""

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
            raise ArgumentError(f"{what}: kernel_size, stride and dilation are at least 1")
        if any(not 0 <= p <= k // 2 for p, k in zip(self.padding, self.kernel, strict=True)):
            raise ArgumentError(
                f"{what}: padding {self.padding} must be between 0 and half of the window "
                f"{self.kernel}"
            )
        self.sizes = x.shape[-rank:]
        self.counts = tuple(self._count(i, ceil_mode, what) for i in range(rank))
        self.pairs = tuple(self._pair(i) for i in range(rank))

    def _reach(self, axis: int) -> int:
        return self.dilation[axis] * (self.kernel[axis] - 1) + 1

    def _count(self, axis: int, ceil_mode: bool, what: str) -> int:
        size, before, step = self.sizes[axis], self.padding[axis], self.stride[axis]
        span = size + 2 * before - self._reach(axis)
        if span < 0 and not (ceil_mode and span > -step):
            raise ShapeError(
                f"{what}: a window of {self._reach(axis)} does not fit {size} places with "
                f"padding {before}"
            )
        count = (-(-span // step) if ceil_mode else span // step) + 1
        # A window that would begin in the right padding is none.
        return count - 1 if (count - 1) * step >= size + before else count

    def _pair(self, axis: int) -> tuple[int, int]:
        before = self.padding[axis]
        used = (self.counts[axis] - 1) * self.stride[axis] + self._reach(axis)
        return before, max(used - self.sizes[axis] - before, before)

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


def _max_pool(
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
    rank: int,
) -> Any:
    what = f"max_pool{rank}d"
    x, added = batched(as_tensor(x), rank, what)
    windows = _Windows(x, kernel, stride, padding, dilation, ceil_mode, rank, what)
    attributes = windows.attributes("max")
    made = unbatched(rows.window_reduce(x, **attributes), added)
    if not return_indices:
        return made
    with on_device(x.device):
        flat = iota(length=int(np.prod(windows.sizes)), dtype=int64)
    places = stretched(reshape(flat, windows.sizes), x.shape)
    return made, unbatched(rows.window_pick(places, x.detach(), **attributes), added)


def _avg_pool(
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
    rank: int,
) -> Tensor:
    what = f"avg_pool{rank}d"
    if divisor == 0:
        raise ArgumentError(f"{what}: divisor_override is 0")
    x, added = batched(floating(x, what), rank, what)
    windows = _Windows(x, kernel, stride, padding, 1, ceil_mode, rank, what)
    total = rows.window_reduce(x, **windows.attributes("sum"))
    counts = windows.divisors(count_include_pad)
    if divisor is not None:
        total = pair(e.div, total, float(divisor))
    elif all(c.size and (c == c[0]).all() for c in counts):
        total = pair(e.div, total, float(np.prod([c[0] for c in counts])))
    else:
        product = counts[0]
        for more in counts[1:]:
            product = product[..., None] * more
        total = pair(e.div, total, baked(product, total))
    return unbatched(total, added)


def baked(array: np.ndarray[Any, Any], like: Tensor) -> Tensor:
    """Return an array that depends on sizes alone as a constant, in the dtype of ``like``."""
    with on_device(like.device):
        made: Tensor = constant(array=HostArray.of(array.astype(like.dtype.numpy)), weak=False)
    return made


def _lp_pool(
    x: Any, norm_type: float, kernel: Any, stride: Any, ceil_mode: bool, rank: int
) -> Tensor:
    what = f"lp_pool{rank}d"
    if norm_type <= 0:
        raise ArgumentError(f"{what}: norm_type {norm_type} must be above 0")
    x, added = batched(floating(x, what), rank, what)
    windows = _Windows(x, kernel, stride, 0, 1, ceil_mode, rank, what)
    powers = pair(e.power, x, float(norm_type))
    total = rows.window_reduce(powers, **windows.attributes("sum"))
    root = pair(e.power, single(relu, total), 1.0 / norm_type)
    return unbatched(root, added)
