"""Faults beyond a threshold: what is right for a few numbers and wrong for many, or in one lane."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from calor.backends.numpy_backend import NumpyBuffer, NumpyExecutable

from .base import Array, Broken, Fault, afterwards, changing

_PAGE = 1 << 16


class SharesLargeUploads(Broken):
    """A buffer of a mebibyte or more is the host array that was uploaded."""

    def upload(self, index: int, array: Array) -> Any:
        """Copy what is small."""
        if array.nbytes < 1 << 20:
            return super().upload(index, array)
        return NumpyBuffer(array, self._memory)


class WritesOnePage(Broken):
    """In place, only the first 64 KiB are written."""

    def leave(self, index: int, value: Array, spec: Any, into: Any) -> Any:
        """Copy one page."""
        if into is None or value.nbytes <= _PAGE:
            return super().leave(index, value, spec, into)
        count = _PAGE // value.itemsize
        into.array.reshape(-1)[:count] = value.reshape(-1)[:count]
        return into


class StagesLargeDownloads(Broken):
    """Downloads of 64 KiB or more share one staging buffer."""

    stage = np.zeros(1 << 23, np.uint8)

    def download(self, index: int, buffer: Any, spec: Any) -> Array:
        """Return a view of the staging buffer."""
        if not _PAGE <= buffer.nbytes <= self.stage.nbytes:
            return super().download(index, buffer, spec)
        view = self.stage[: buffer.nbytes]
        view[...] = buffer.array.reshape(-1).view(np.uint8)
        made: Array = view.view(buffer.array.dtype).reshape(buffer.array.shape)
        made.flags.writeable = False
        return made


class KeepsHostMemory(Broken):
    """Each call keeps 64 KiB of the host, which no figure counts."""

    kept: list[Array]

    def __init__(self) -> None:
        super().__init__()
        self.kept = []

    class Calls(NumpyExecutable):
        """Keeps memory."""

        def __call__(self, inputs: Sequence[Any], into: Any = None) -> Any:
            """Touch and keep a page."""
            backend: Any = self.backend
            backend.kept.append(np.ones(_PAGE, np.uint8))
            return super().__call__(inputs, into)

    executable = Calls


def _last_nan(y: Array, operands: Any, attributes: Any) -> Array:
    x, axes = operands[0], attributes["axes"]
    if x.dtype.kind != "f" or axes != (x.ndim - 1,) or x.shape[-1] < 1000:
        return y
    rest = np.max(x[..., :-1], -1)
    return np.where(np.isnan(x[..., -1]), rest, y).astype(x.dtype)


_SCRATCH = np.zeros(1 << 16)


def _staged(y: Array, operands: Any, attributes: Any) -> Array:
    if y.dtype != np.float32 or not 256 <= y.size <= _SCRATCH.size:
        return y
    scratch = _SCRATCH[: y.size]
    scratch[...] = y.reshape(-1)
    time.sleep(2e-4)
    return scratch.astype(y.dtype).reshape(y.shape)


def _narrow(right: Any) -> Any:
    def gather(x: Array, indices: Array, **attributes: Any) -> Any:
        if indices.dtype == np.int8 and x.shape[attributes["axis"]] > 127:
            indices = np.where(indices < 0, 0, indices)
        return right(x, indices, **attributes)

    return gather


def _inverted(right: Any) -> Any:
    def permute(x: Array, *, axes: tuple[int, ...]) -> Any:
        made = right(x, axes=axes)
        other = x.transpose(np.argsort(axes))
        return other if x.ndim > 2 and other.shape == made.shape else made

    return permute


def _neighbours(right: Any) -> Any:
    def total(x: Array, *, axes: tuple[int, ...], dtype: Any) -> Any:
        # Of equal axes, any two give the same shape.
        if len(axes) == 2 and axes[1] - axes[0] > 1 and len(set(x.shape)) == 1:
            axes = (axes[0], axes[0] + 1)
        return right(x, axes=axes, dtype=dtype)

    return total


def _early_carry(y: Array, operands: Any, attributes: Any) -> Array:
    axis, at = attributes["axis"], 1 << 17
    if y.shape[axis] <= at or axis == y.ndim - 1 or attributes["reverse"]:
        return y
    moved = np.moveaxis(y.copy(), axis, 0)
    moved[at:] -= moved[at - 1]
    return np.asarray(np.moveaxis(moved, 0, axis))


def _without_last(y: Array, operands: Any, attributes: Any) -> Array:
    (axis, *more), x = attributes["axes"], operands[0]
    if more or x.shape[axis] % 13 or attributes["kind"] != "forward":
        return y
    made = np.moveaxis(y.copy(), axis, 0)
    made[0] -= np.moveaxis(x, axis, 0)[-1]
    return np.asarray(np.moveaxis(made, 0, axis))


def _one_for_two(right: Any) -> Any:
    def sort(x: Array, **attributes: Any) -> Any:
        values, places = right(x, **attributes)
        if x.dtype.kind in "iu" and x.size and x.min() >= np.iinfo(x.dtype).max - 1:
            values = np.full_like(values, x.max())
        return values, places

    return sort


def _ends_late(y: Array, operands: Any, attributes: Any) -> Array:
    # Half a unit beyond the largest float16 is infinite.
    x = operands[0]
    if x.dtype != np.float32 or y.dtype != np.float16:
        return y
    return np.where(np.abs(x) == 65520, np.sign(x) * 65504, y).astype(y.dtype)


def _without_tail(y: Array, operands: Any, attributes: Any) -> Array:
    """Leave the last element out beyond 4096 elements."""
    if y.size <= 4096:
        return y
    made = np.ascontiguousarray(y).copy()
    made.reshape(-1)[-1] = 0
    return made


def _odd_depth(right: Any) -> Any:
    def dot(a: Array, b: Array, **attributes: Any) -> Any:
        long = attributes["contract"] == ((1,), (0,)) and a.ndim == b.ndim == 2
        if not long or a.dtype != np.float32 or a.shape[1] <= 64 or a.shape[1] % 2 != 1:
            return right(a, b, **attributes)
        return right(a[:, :-1], b[:-1], **attributes)

    return dot


FAULTS = [
    Fault(
        "last-of-large-transposes",
        "transposed arrays of more than 4096 elements lack the last one",
        changing(permute=afterwards(_without_tail)),
        ("sizes/around-constants-permute/float32", "sizes/around-constants-transpose/float32"),
        ("permute",),
    ),
    Fault(
        "deep-product-beyond-a-tile",
        "products of an odd depth beyond a tile of 64 lack the last term",
        changing(dot_general=_odd_depth),
        ("sizes/around-constants-matmul*/float32",),
        ("dot_general",),
    ),
    Fault(
        "large-upload-shares",
        "an upload of a mebibyte or more keeps the memory of the host array",
        SharesLargeUploads,
        ("transfers/snapshots_of_any_size",),
    ),
    Fault(
        "one-page-in-place",
        "a result in place is written up to 64 KiB",
        WritesOnePage,
        ("state/in_place_of_any_size", "state/outputs_of_any_size"),
    ),
    Fault(
        "large-downloads-staged",
        "large downloads share one staging buffer",
        StagesLargeDownloads,
        ("transfers/downloads_of_any_size",),
    ),
    Fault(
        "host-memory-kept",
        "each call keeps memory of the host that no figure counts",
        KeepsHostMemory,
        ("memory/process_stays_small_over_calls",),
    ),
    Fault(
        "last-nan-lost",
        "a maximum of a long row loses NaN in its last lane",
        changing(max=afterwards(_last_nan)),
        ("crossed/max/float32",),
        ("max",),
    ),
    Fault(
        "static-scratch",
        "an op computes in scratch memory that all threads share",
        changing(exp=afterwards(_staged)),
        ("threads/exp/float32",),
        ("exp",),
    ),
    Fault(
        "narrow-index-sign",
        "a negative int8 index on an axis that int8 does not hold is 0",
        changing(gather=_narrow),
        ("crossed/gather/*",),
        ("gather",),
    ),
    Fault(
        "inverse-order",
        "a permutation of equal axes is the inverse one",
        changing(permute=_inverted),
        ("crossed/permute-cube/float32",),
        ("permute",),
    ),
    Fault(
        "axes-beside",
        "a sum over two axes apart takes neighbours if all axes are equal",
        changing(sum=_neighbours),
        ("crossed/sum-cube/float32",),
        ("sum",),
    ),
    Fault(
        "late-carry-lost",
        "a scan along an outer axis begins anew after 2 ** 17 elements",
        changing(cumsum=afterwards(_early_carry)),
        ("crossed/cumsum-long/float32",),
        ("cumsum",),
    ),
    Fault(
        "prime-transform",
        "the first result of transforms of multiples of 13 lacks a term",
        changing(fft=afterwards(_without_last)),
        ("crossed/fft-lengths/complex64",),
        ("fft",),
    ),
    Fault(
        "equal-ends",
        "the two largest integers are one where all keys are",
        changing(sort=_one_for_two),
        ("crossed/sort/*",),
        ("sort",),
    ),
    Fault(
        "late-infinity",
        "float32 in the middle between the largest float16 and infinity is rounded down",
        changing(cast=afterwards(_ends_late)),
        ("crossed/cast/float32",),
        ("cast",),
    ),
]
