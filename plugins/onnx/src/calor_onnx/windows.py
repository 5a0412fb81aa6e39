"""Window positions of convolutions and pools, by ONNX's attributes.

Requirements: explicit and automatic padding, for each end separately. A pool that rounds up counts
a last window that begins in the operand or its first padding, even if it ends beyond the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import calor
from calor.ops import contraction as rows
from calor_onnx.errors import ModelError

Sizes = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over the last axes of an operand, of the given ``sizes``."""

    sizes: Sizes
    kernel: Sizes
    strides: Sizes
    dilations: Sizes
    # The declared padding, and the number of windows.
    pads: Pads
    counts: Sizes

    @property
    def reach(self) -> Sizes:
        """The extent of a window along each axis."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def fitted(self) -> Pads:
        """Return padding with which exactly ``counts`` windows fit: the declared one if it does."""
        made = []
        for n, s, r, (low, high), count in zip(
            self.sizes, self.strides, self.reach, self.pads, self.counts, strict=True
        ):
            if (n + low + high - r) // s + 1 != count:
                high = max((count - 1) * s + r - n - low, 0)
            made.append((low, high))
        return tuple(made)

    def reduce(self, x: Any, kind: str) -> Any:
        """Return the sum, max or min of each window of x."""
        return rows.window_reduce(x, **self.attributes(kind))

    def attributes(self, kind: str) -> dict[str, Any]:
        """Return the attributes for core's rows of window operations."""
        return {
            "kind": kind,
            "window": self.kernel,
            "stride": self.strides,
            "padding": self.fitted(),
            "dilation": self.dilations,
        }

    def whole(self, padding: bool) -> bool:
        """Return whether all elements of each window count, with or without padding."""
        return all(
            (padding or not (low or high)) and (count - 1) * s + r <= n + low + high
            for n, s, r, (low, high), count in zip(
                self.sizes, self.strides, self.reach, self.pads, self.counts, strict=True
            )
        )

    def elements(self, padding: bool) -> list[np.ndarray[Any, Any]]:
        """Return the number of elements in each window for each axis, with or without padding."""
        found = []
        for n, k, s, d, (low, high), count in zip(
            self.sizes, self.kernel, self.strides, self.dilations, self.pads, self.counts,
            strict=True,
        ):  # fmt: skip
            place = (np.arange(count) * s - low)[:, None] + np.arange(k) * d
            first, last = (-low, n + high) if padding else (0, n)
            found.append(((place >= first) & (place < last)).sum(1))
        return found


def positive(value: int, what: str) -> int:
    """Return an attribute that divides or counts, which must be at least 1.

    Raises
    ------
    ModelError
        If it is below 1.

    Examples
    --------
    >>> from calor_onnx.windows import positive
    >>> positive(2, "group")
    2
    """
    if value < 1:
        raise ModelError(f"{what} is {value}; it must be at least 1")
    return value


def given(value: Sequence[int] | None, rank: int, what: str, default: int = 1) -> Sizes:
    """Return an attribute with one number for each axis.

    Raises
    ------
    ModelError
        If it has another number of entries.
    """
    if not value:
        return (default,) * rank
    if len(value) != rank:
        raise ModelError(f"{what} {list(value)} needs {rank} numbers")
    return tuple(value)


def ends(pads: Sequence[int] | None, rank: int) -> Pads:
    """Return ONNX's pads, all beginnings followed by all ends, as pairs for each axis."""
    flat = given(pads, 2 * rank, "pads", 0)
    return tuple(zip(flat[:rank], flat[rank:], strict=True))


def shared(total: int, auto_pad: str) -> tuple[int, int]:
    """Return padding divided between both ends; SAME_UPPER puts an odd element at the end."""
    low = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
    return low, total - low


def windows_of(
    sizes: Sizes, kernel: Sequence[int] | None, strides: Any = None, pads: Any = None,
    dilations: Any = None, auto_pad: str = "NOTSET", ceil_mode: int = 0,
) -> Windows:  # fmt: skip
    """Return the windows over axes of given sizes."""
    rank = len(sizes)
    window = given(kernel, rank, "kernel_shape")
    step, apart = given(strides, rank, "strides"), given(dilations, rank, "dilations")
    if min((*window, *step, *apart), default=1) < 1:
        raise ModelError("kernel_shape, strides and dilations must be at least 1")
    reach = [d * (k - 1) + 1 for k, d in zip(window, apart, strict=True)]
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        counts = tuple(-(-n // s) for n, s in zip(sizes, step, strict=True))
        total = [
            max((c - 1) * s + r - n, 0)
            for c, s, r, n in zip(counts, step, reach, sizes, strict=True)
        ]
        return Windows(
            sizes, window, step, apart, tuple(shared(t, auto_pad) for t in total), counts
        )
    if auto_pad not in ("NOTSET", "VALID", ""):
        raise ModelError(f"auto_pad {auto_pad!r} is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    pairs = ((0, 0),) * rank if auto_pad == "VALID" else ends(pads, rank)
    found = []
    for n, s, r, (low, high) in zip(sizes, step, reach, pairs, strict=True):
        span = n + low + high - r
        count = (-(-span // s) if ceil_mode else span // s) + 1
        if ceil_mode and (count - 1) * s >= n + low:
            count -= 1
        if count < 1 and n:
            raise ModelError(f"a window with an extent of {r} does not fit an axis of {n} with "
                             f"padding {low} and {high}")  # fmt: skip
        found.append(max(count, 0))
    return Windows(sizes, window, step, apart, pairs, tuple(found))


def cropped(x: Any, starts: Sequence[int], sizes: Sequence[int], value: Any = 0) -> Any:
    """Return ``sizes`` elements of the last axes from ``starts`` on; ``value`` outside of x."""
    front = x.ndim - len(starts)
    before = [max(-a, 0) for a in starts]
    after = [max(a + n - m, 0) for a, n, m in zip(starts, sizes, x.shape[front:], strict=True)]
    if any(before) or any(after):
        width = ((0, 0),) * front + tuple(zip(before, after, strict=True))
        x = calor.pad(x, width, value=value)
    index = [slice(None)] * front
    index += [slice(a + b, a + b + n) for a, b, n in zip(starts, before, sizes, strict=True)]
    return x[tuple(index)]
