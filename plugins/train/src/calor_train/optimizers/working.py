"""The form in which a step is computed: at least float32, and real numbers.

Requirements: a parameter in half precision must not lose small updates on the way, so its state and
its arithmetic are float32. A method that treats elements one by one (a square, a root) computes
with a complex parameter as pairs of real numbers, as in PyTorch.
"""

from __future__ import annotations

from typing import Final

import calor
from calor import DType, Tensor

_HALVES: Final = (calor.float16, calor.bfloat16)


def working_dtype(dtype: DType) -> DType:
    """Return the type that a step computes in: float32 for the half types, else the type itself."""
    return calor.float32 if dtype in _HALVES else dtype


def enter(x: Tensor, pairs: bool) -> Tensor:
    """Return a parameter or gradient in the working form; with ``pairs`` complex becomes real.

    A complex tensor of shape ``s`` becomes a real one of shape ``(*s, 2)``.
    """
    if pairs and x.dtype.is_complex:
        return calor.stack([calor.real(x), calor.imag(x)], axis=-1)
    wanted = working_dtype(x.dtype)
    return x if x.dtype is wanted else x.astype(wanted)


def leave(x: Tensor, like: Tensor, pairs: bool) -> Tensor:
    """Return a tensor of the working form in the shape and dtype of ``like``."""
    if pairs and like.dtype.is_complex:
        return x[..., 0] + x[..., 1] * 1j
    return x if x.dtype is like.dtype else x.astype(like.dtype)
