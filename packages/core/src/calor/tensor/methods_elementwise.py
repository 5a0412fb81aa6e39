"""Methods that compute element by element; each calls the function of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import calor
from calor.graph.trace import Handle

if TYPE_CHECKING:
    from calor.functions.operands import Operand
    from calor.tensor.tensor import Tensor


class ElementwiseMethods(Handle):
    """Arithmetic, exponentials, circular functions, rounding and tests of each element."""

    __slots__ = ()

    @property
    def real(self) -> Tensor:
        """The real parts; of a real tensor the tensor itself."""
        return calor.real(self)

    @property
    def imag(self) -> Tensor:
        """The imaginary parts; of a real tensor zeros."""
        return calor.imag(self)

    def abs(self) -> Tensor:
        """The absolute values; of complex elements their sizes."""
        return calor.abs(self)

    def sign(self) -> Tensor:
        """The signs: −1, 0 or 1; of complex elements their direction."""
        return calor.sign(self)

    def square(self) -> Tensor:
        """The squares."""
        return calor.square(self)

    def reciprocal(self) -> Tensor:
        """One divided by each element."""
        return calor.reciprocal(self)

    def floor(self) -> Tensor:
        """The largest whole numbers that are not above."""
        return calor.floor(self)

    def ceil(self) -> Tensor:
        """The smallest whole numbers that are not below."""
        return calor.ceil(self)

    def trunc(self) -> Tensor:
        """The elements without their fractions."""
        return calor.trunc(self)

    def conj(self) -> Tensor:
        """The complex conjugates."""
        return calor.conj(self)

    def sqrt(self) -> Tensor:
        """The square roots."""
        return calor.sqrt(self)

    def exp(self) -> Tensor:
        """The exponentials."""
        return calor.exp(self)

    def exp2(self) -> Tensor:
        """Two to the power of each element."""
        return calor.exp2(self)

    def expm1(self) -> Tensor:
        """``exp(x) - 1``, exact near 0."""
        return calor.expm1(self)

    def log(self) -> Tensor:
        """The natural logarithms."""
        return calor.log(self)

    def log2(self) -> Tensor:
        """The logarithms to base 2."""
        return calor.log2(self)

    def log10(self) -> Tensor:
        """The logarithms to base 10."""
        return calor.log10(self)

    def log1p(self) -> Tensor:
        """``log(1 + x)``, exact near 0."""
        return calor.log1p(self)

    def sin(self) -> Tensor:
        """The sines of angles in radians."""
        return calor.sin(self)

    def cos(self) -> Tensor:
        """The cosines of angles in radians."""
        return calor.cos(self)

    def tan(self) -> Tensor:
        """The tangents of angles in radians."""
        return calor.tan(self)

    def asin(self) -> Tensor:
        """The inverse sines, in radians."""
        return calor.asin(self)

    def acos(self) -> Tensor:
        """The inverse cosines, in radians."""
        return calor.acos(self)

    def atan(self) -> Tensor:
        """The inverse tangents, in radians."""
        return calor.atan(self)

    def sinh(self) -> Tensor:
        """The hyperbolic sines."""
        return calor.sinh(self)

    def cosh(self) -> Tensor:
        """The hyperbolic cosines."""
        return calor.cosh(self)

    def tanh(self) -> Tensor:
        """The hyperbolic tangents."""
        return calor.tanh(self)

    def asinh(self) -> Tensor:
        """The inverse hyperbolic sines."""
        return calor.asinh(self)

    def acosh(self) -> Tensor:
        """The inverse hyperbolic cosines."""
        return calor.acosh(self)

    def atanh(self) -> Tensor:
        """The inverse hyperbolic tangents."""
        return calor.atanh(self)

    def erf(self) -> Tensor:
        """The error function."""
        return calor.erf(self)

    def erfinv(self) -> Tensor:
        """The inverse of the error function."""
        return calor.erfinv(self)

    def lgamma(self) -> Tensor:
        """The logarithms of the absolute values of the gamma function."""
        return calor.lgamma(self)

    def digamma(self) -> Tensor:
        """The derivatives of ``lgamma``."""
        return calor.digamma(self)

    def isnan(self) -> Tensor:
        """True where an element is not a number."""
        return calor.isnan(self)

    def isinf(self) -> Tensor:
        """True where an element is infinite."""
        return calor.isinf(self)

    def isfinite(self) -> Tensor:
        """True where an element is neither infinite nor NaN."""
        return calor.isfinite(self)

    def signbit(self) -> Tensor:
        """True where the sign bit is set."""
        return calor.signbit(self)

    def logical_not(self) -> Tensor:
        """True where an element is 0 or False."""
        return calor.logical_not(self)

    def pow(self, other: Operand) -> Tensor:
        """The elements to the power of ``other``."""
        return calor.pow(self, other)

    def maximum(self, other: Operand) -> Tensor:
        """The larger of each pair of elements."""
        return calor.maximum(self, other)

    def minimum(self, other: Operand) -> Tensor:
        """The smaller of each pair of elements."""
        return calor.minimum(self, other)

    def atan2(self, other: Operand) -> Tensor:
        """The angle in radians of the point (``other``, x)."""
        return calor.atan2(self, other)

    def logical_and(self, other: Operand) -> Tensor:
        """True where both are not 0."""
        return calor.logical_and(self, other)

    def logical_or(self, other: Operand) -> Tensor:
        """True where at least one is not 0."""
        return calor.logical_or(self, other)

    def logical_xor(self, other: Operand) -> Tensor:
        """True where exactly one is not 0."""
        return calor.logical_xor(self, other)

    def round(self, decimals: int = 0) -> Tensor:
        """The elements rounded to ``decimals`` places, halves to the even neighbour."""
        return calor.round(self, decimals=decimals)

    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """The elements brought into the range from ``min`` to ``max``."""
        return calor.clip(self, min, max)

    def nan_to_num(
        self, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
    ) -> Tensor:
        """The elements with NaN and infinities replaced by numbers."""
        return calor.nan_to_num(self, nan=nan, posinf=posinf, neginf=neginf)
