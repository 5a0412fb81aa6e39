"""Computes a row on the current device and compares the results with the oracle's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

import calor
from calor.device_selection import current_device
from calor.dtypes import DType, as_dtype, complex_of, real_of
from calor.errors import UnsupportedError
from calor.tensor.values import Handle

from .comparison import check, expected, widen
from .flushing import lost, right, taken
from .language import Array, Case


def put(arrays: Sequence[Array], device: str | None = None) -> list[Any]:
    """Return the arrays as tensors on a device, by default the current one.

    A device need not store a dtype that it does not declare. Its refusal then names the dtype, as
    that of a graph does.
    """
    return [_uploaded(a, device) for a in arrays]


def _uploaded(array: Array, device: str | None) -> Any:
    try:
        return calor.asarray(array, device=device)
    except UnsupportedError as error:
        there = current_device() if device is None else calor.device(device)
        dtype = as_dtype(array.dtype)
        if not error.refused and not there.info.dtypes.get(dtype):
            error.refused = (("upload", (dtype.name,), "the device does not store it"),)
        raise


def outputs(made: Any) -> list[Any]:
    """Return the tensors of a result."""
    return [t for t in calor.tree.leaves(made) if isinstance(t, Handle)]


def numpy_of(made: Any) -> list[Array]:
    """Return the arrays of a result."""
    return [t.numpy() for t in outputs(made)]


def judge(
    c: Case,
    dtype: DType,
    arrays: list[Array],
    got: Sequence[Array],
    flushes: Collection[DType] = (),
) -> None:
    """Raise AssertionError unless the results are the oracle's within the row's tolerance.

    ``flushes`` are the dtypes whose denormals the device declares to flush to zero.
    """
    want = expected(c, arrays, dtype)
    assert len(got) == len(want), f"{c.label}: {len(got)} outputs, the oracle has {len(want)}"
    scale = scale_of(c, arrays, dtype)
    kinds = result_types(c, dtype, want)
    every = [want, *(expected(c, given, dtype) for given in taken(arrays, flushes)[1:])]
    for a, b, kind, *wants in zip(got, want, kinds, *every, strict=True):
        fits = np.ndim(scale) == 0 or np.shape(scale) == a.shape
        near = right(a, wants, kind, flushes) if flushes else b
        check(
            a, near, kind, c.tol, scale if fits else None, what=f"{c.label} {dtype.name}",
            least=lost(kind, flushes),
        )  # fmt: skip


def result_types(c: Case, dtype: DType, want: Sequence[Any]) -> Sequence[DType]:
    """Return the dtypes of the outputs: as the row says, else from the oracle's kind of number."""
    if c.out is not None:
        return c.out(dtype)
    return [_result_type(c, dtype, np.asarray(w)) for w in want]


def _result_type(c: Case, dtype: DType, want: Array) -> DType:
    if c.raw or want.dtype.kind == "b":
        return as_dtype(want.dtype)
    target: DType = c.attributes_for(dtype).get("dtype", dtype)
    if want.dtype.kind in "Oiu":
        return target
    return complex_of(target) if want.dtype.kind == "c" else real_of(target)


def scale_of(c: Case, arrays: list[Array], dtype: DType) -> Any:
    if c.tol.scale is None:
        return None
    given = [widen(a) for a in arrays]
    with np.errstate(all="ignore"):
        if c.tol.scale == "terms":
            sizes = [np.abs(x) if x.dtype.kind not in "bO" else x for x in given]
            return np.abs(c.oracle(*sizes, **c.attributes_for(dtype)))
        assert callable(c.tol.scale)
        return c.tol.scale(*given, **c.attributes_for(dtype))
