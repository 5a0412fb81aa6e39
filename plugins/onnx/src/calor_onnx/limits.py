"""How large a value may be: what a small file declares must not exhaust the memory.

A few bytes can ask for terabytes: a constant's shape, a range, a tile. Sizes are compared with the
machine's memory before anything is allocated; values of devices are lazy, so their shapes are.
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
    """Return the bytes of this machine's memory; 64 GiB where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 36


# The largest value that a model may make or hold, in bytes.
BYTES = max(_memory(), 1 << 32)


def bounded(shape: Iterable[int], itemsize: int, what: str) -> None:
    """Refuse a shape of more bytes than the machine's memory has; ModelError."""
    sizes = tuple(shape)
    if prod(sizes) * itemsize > BYTES:
        raise ModelError(
            f"{what} has the shape {list(sizes)}, which is {prod(sizes) * itemsize:,} bytes, of "
            f"which {BYTES:,} are allowed; a model that is meant to needs calor_onnx.limits.BYTES "
            f"set higher"
        )


def within(value: Any, what: str) -> None:
    """Refuse values, such as what a node made, that are larger than the memory; ModelError."""
    if isinstance(value, list | tuple):
        for item in value:
            within(item, what)
    elif isinstance(value, Narrow | Later):
        within(value.tensor, what)
    elif isinstance(value, Tensor):
        bounded(value.shape, value.dtype.itemsize, what)
    elif isinstance(value, np.ndarray) and value.nbytes > BYTES:
        bounded(value.shape, value.itemsize, what)
