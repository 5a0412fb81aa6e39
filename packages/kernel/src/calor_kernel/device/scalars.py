"""Numbers as arguments of kernels."""

from __future__ import annotations

from typing import Final

import numpy as np

from calor.dtypes import DType, bfloat16, float16

_BITS: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def scalar_bits(given: float, dtype: DType) -> int:
    """Return a number's bits in a kernel's argument form: bools as bytes, halves as their bits."""
    held = np.asarray(given).astype(dtype.numpy)
    if dtype in (float16, bfloat16):
        return int(held.view(np.uint16))
    return int(held.view(_BITS[dtype.itemsize]))
