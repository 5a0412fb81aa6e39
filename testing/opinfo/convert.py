"""Samples of PyTorch as calor's values, and results of both as NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import torch

import calor

# Arguments that say where or how PyTorch stores a tensor.
DROPPED = frozenset(("device", "layout", "memory_format", "pin_memory", "requires_grad", "out"))
_DTYPES = {
    torch.float32: calor.float32, torch.float64: calor.float64, torch.float16: calor.float16,
    torch.bfloat16: calor.bfloat16, torch.complex64: calor.complex64,
    torch.complex128: calor.complex128, torch.int8: calor.int8, torch.int16: calor.int16,
    torch.int32: calor.int32, torch.int64: calor.int64, torch.uint8: calor.uint8,
    torch.bool: calor.bool_,
}  # fmt: skip


class Unusable(Exception):
    """A sample holds something that calor does not have."""


def numpy_of_torch(x: torch.Tensor) -> Any:
    if x.layout is not torch.strided or x.dtype not in _DTYPES:
        raise Unusable(f"{x.layout} {x.dtype}")
    x = x.detach().resolve_conj().resolve_neg()
    if x.dtype is torch.bfloat16:
        return x.contiguous().view(torch.int16).numpy(force=True).view(ml_dtypes.bfloat16)
    return x.numpy(force=True)


def to_calor(v: Any) -> Any:
    """Return a sample's value with tensors and dtypes converted."""
    if isinstance(v, torch.Tensor):
        return calor.asarray(numpy_of_torch(v))
    if isinstance(v, torch.dtype):
        if v not in _DTYPES:
            raise Unusable(str(v))
        return _DTYPES[v]
    if isinstance(v, torch.Size):
        return tuple(v)
    if isinstance(v, list | tuple):
        return type(v)(to_calor(x) for x in v)
    if isinstance(v, dict):
        return {k: to_calor(x) for k, x in v.items() if k not in DROPPED}
    if isinstance(v, torch.device | torch.memory_format | torch.layout):
        return None
    return v


def leaves(v: Any, kind: type) -> list[Any]:
    """Return the values of a kind in nested containers, in order."""
    if isinstance(v, kind):
        return [v]
    if isinstance(v, list | tuple):
        return [x for part in v for x in leaves(part, kind)]
    if isinstance(v, dict):
        return [x for part in v.values() for x in leaves(part, kind)]
    return []


def replaced(v: Any, kind: type, take: Callable[[], Any]) -> Any:
    """Return nested containers with each value of a kind replaced by the next one taken."""
    if isinstance(v, kind):
        return take()
    if isinstance(v, list | tuple):
        return type(v)([replaced(x, kind, take) for x in v])
    if isinstance(v, dict):
        return {k: replaced(x, kind, take) for k, x in v.items()}
    return v


def results(v: Any) -> list[Any]:
    """Return the arrays and numbers of a result."""
    if isinstance(v, torch.Tensor):
        return [numpy_of_torch(v)]
    if isinstance(v, calor.Tensor):
        return [np.asarray(v.numpy())]
    if isinstance(v, torch.Size):
        return [np.asarray(tuple(v), np.int64)]
    if isinstance(v, list | tuple):
        return [x for part in v for x in results(part)]
    if v is None:
        return []
    return [np.asarray(v)]


def wide(a: Any) -> Any:
    """Return an array as float64 or complex128; others as they are."""
    if a.dtype.kind == "c":
        return a.astype(np.complex128)
    if a.dtype.kind in "fV" or a.dtype == ml_dtypes.bfloat16:
        return a.astype(np.float64)
    return a
