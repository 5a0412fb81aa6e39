"""Limits of the size of values: a small file must not exhaust the memory.

A few bytes can declare terabytes: a constant's shape, a range, a tile. Host values are compared
with the machine's memory before their allocation. Values of devices are lazy, so their shapes are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from calor import Tensor
from calor_onnx.errors import ModelError
from calor_onnx.values import Later, Narrow


def _memory() -> int:
    """Return the bytes of this machine's memory; 64 GiB if unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 36


# Limit of the size of one value, in bytes.
BYTES = max(_memory(), 1 << 32)


def bounded(shape: Iterable[int], itemsize: int, what: str) -> None:
    """Raise ModelError for a shape with more bytes than the limit."""
    sizes = tuple(shape)
    if prod(sizes) * itemsize > BYTES:
        raise ModelError(
            f"{what} has the shape {list(sizes)}, which needs {prod(sizes) * itemsize:,} bytes; "
            f"the limit is {BYTES:,}. If the model is right, set calor_onnx.limits.BYTES higher"
        )


def within(value: Any, what: str) -> None:
    """Raise ModelError for values, such as results of a node, that exceed the limit."""
    if isinstance(value, list | tuple):
        for item in value:
            within(item, what)
    elif isinstance(value, Narrow | Later):
        within(value.tensor, what)
    elif isinstance(value, Tensor):
        bounded(value.shape, value.dtype.itemsize, what)
    elif isinstance(value, np.ndarray) and value.nbytes > BYTES:
        bounded(value.shape, value.itemsize, what)
