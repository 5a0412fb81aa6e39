"""Rules shared by the rows of linear algebra, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calor.dtypes import complex64, complex128, float32, float64
from calor.errors import DTypeError, LinearAlgebraError, ShapeError
from calor.specs import Spec, spec

_DTYPES = (float32, float64, complex64, complex128)


def matrices(what: str, x: Spec) -> None:
    """Raise unless x holds matrices of a dtype that linear algebra computes in."""
    if x.ndim < 2:
        raise ShapeError(
            f"{what}: x has shape {x.shape}; pass matrices, at least two axes (..., M, N)"
        )
    if x.dtype not in _DTYPES:
        raise DTypeError(
            f"{what} computes in float32, float64, complex64 or complex128, not {x.dtype.name}; "
            f"cast with x.astype(calor.float32)"
        )


def square(what: str, x: Spec) -> None:
    """Raise unless x holds square matrices of a dtype that linear algebra computes in."""
    matrices(what, x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{what}: matrices of shape {x.shape} are not square; pass shape (..., M, M)"
        )


def square_rule(what: str) -> Callable[..., Spec]:
    """Return the rule of an op from square matrices to matrices of the same spec."""

    def rule(x: Spec) -> Spec:
        square(what, x)
        return spec(x.shape, x.dtype)

    return rule


def typed_errors(what: str, function: Callable[..., Any], problem: str) -> Callable[..., Any]:
    """Return a reference that raises LinearAlgebraError, with advice, for NumPy's LinAlgError."""

    def run(*arrays: Any, **attributes: Any) -> Any:
        try:
            return function(*arrays, **attributes)
        except np.linalg.LinAlgError:
            raise LinearAlgebraError(f"{what}: {which(arrays[0].shape)} {problem}") from None

    return run


def which(shape: tuple[int, ...]) -> str:
    """Return the words for a matrix among those of a shape."""
    return "the matrix" if len(shape) == 2 else f"one of the matrices of shape {shape}"


NOT_POSITIVE = "is not positive definite; add a small number to its diagonal if it should be"


NO_CONVERGENCE = (
    "has NaN or infinite elements, so the iteration does not converge; "
    "find them with calor.isfinite(x)"
)


def system_rule(what: str) -> Any:
    """Return the rule of an op that solves systems: square matrices and right-hand sides."""

    def rule(a: Spec, b: Spec, **attributes: bool) -> Spec:
        square(what, a)
        if b.dtype is not a.dtype:
            raise DTypeError(
                f"{what}: matrices {a} and right-hand sides {b} differ in dtype; cast one of them"
            )
        if b.ndim != a.ndim or b.shape[:-1] != a.shape[:-1]:
            raise ShapeError(
                f"{what}: right-hand sides of shape {b.shape} do not fit matrices of shape "
                f"{a.shape}; batch axes and rows must be equal"
            )
        return spec(b.shape, b.dtype)

    return rule
