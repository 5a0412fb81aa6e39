"""Rows of the ops without operands: numbers, ramps and host arrays that belong to a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.device_selection import as_device
from calor.dtypes import DType
from calor.graph.attributes import HostArray as HostArray
from calor.graph.attributes import Scalar, SizedScalar
from calor.ops.base import Op, op
from calor.recording.rows import constant as constant
from calor.recording.rows import full as full
from calor.specs import Spec, spec

_SOURCE = "it has no operands"

iota: Op = op(
    "iota",
    lambda *, length, dtype: spec((length,), dtype),
    lambda *, length, dtype: np.arange(length).astype(dtype.numpy),
    no_gradient=_SOURCE,
)


def sized_number(size: Any, dtype: DType) -> Any:
    """Return the 0-d tensor of a symbolic size, while a graph is traced for many sizes."""
    return full(value=SizedScalar(dtype.name, size), shape=(), dtype=dtype)


def zeros_of(like: Spec, device: Any) -> Any:
    """Return a tensor of zeros of a spec on a device."""
    with as_device(device):
        return full(value=Scalar.of(0, like.dtype), shape=like.shape, dtype=like.dtype)
