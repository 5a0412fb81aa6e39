"""Methods that compute element by element; each calls the function of its name."""

from __future__ import annotations

from calor.functions import elementwise, logic, transcendental
from calor.tensor.tensor import Operand, Tensor, with_methods


@with_methods
class ElementwiseMethods(Tensor):
    """Arithmetic, exponentials, circular functions, rounding and tests of each element."""

    __slots__ = ()

    @property
    def real(self) -> Tensor:
        """The real parts; of a real tensor the tensor itself."""
        return elementwise.real(self)

    @property
    def imag(self) -> Tensor:
        """The imaginary parts; of a real tensor zeros."""
        return elementwise.imag(self)

    def abs(self) -> Tensor:
        """The absolute values; of complex elements their sizes."""
        return elementwise.abs(self)

    def sign(self) -> Tensor:
        """The signs: −1, 0 or 1; of complex elements their direction."""
        return elementwise.sign(self)

    def square(self) -> Tensor:
        """The squares."""
        return elementwise.square(self)

    def reciprocal(self) -> Tensor:
        """One divided by each element."""
        return elementwise.reciprocal(self)

    def floor(self) -> Tensor:
        """The largest whole numbers that are not above."""
        return elementwise.floor(self)

    def ceil(self) -> Tensor:
        """The smallest whole numbers that are not below."""
        return elementwise.ceil(self)

    def trunc(self) -> Tensor:
        """The elements without their fractions."""
        return elementwise.trunc(self)

    def conj(self) -> Tensor:
        """The complex conjugates."""
        return elementwise.conj(self)

    def sqrt(self) -> Tensor:
        """The square roots."""
        return transcendental.sqrt(self)

    def exp(self) -> Tensor:
        """The exponentials."""
        return transcendental.exp(self)

    def exp2(self) -> Tensor:
        """Two to the power of each element."""
        return transcendental.exp2(self)

    def expm1(self) -> Tensor:
        """``exp(x) - 1``, exact near 0."""
        return transcendental.expm1(self)

    def log(self) -> Tensor:
        """The natural logarithms."""
        return transcendental.log(self)

    def log2(self) -> Tensor:
        """The logarithms to base 2."""
        return transcendental.log2(self)

    def log10(self) -> Tensor:
        """The logarithms to base 10."""
        return transcendental.log10(self)

    def log1p(self) -> Tensor:
        """``log(1 + x)``, exact near 0."""
        return transcendental.log1p(self)

    def sin(self) -> Tensor:
        """The sines of angles in radians."""
        return transcendental.sin(self)

    def cos(self) -> Tensor:
        """The cosines of angles in radians."""
        return transcendental.cos(self)

    def tan(self) -> Tensor:
        """The tangents of angles in radians."""
        return transcendental.tan(self)

    def asin(self) -> Tensor:
        """The inverse sines, in radians."""
        return transcendental.asin(self)

    def acos(self) -> Tensor:
        """The inverse cosines, in radians."""
        return transcendental.acos(self)

    def atan(self) -> Tensor:
        """The inverse tangents, in radians."""
        return transcendental.atan(self)

    def sinh(self) -> Tensor:
        """The hyperbolic sines."""
        return transcendental.sinh(self)

    def cosh(self) -> Tensor:
        """The hyperbolic cosines."""
        return transcendental.cosh(self)

    def tanh(self) -> Tensor:
        """The hyperbolic tangents."""
        return transcendental.tanh(self)

    def asinh(self) -> Tensor:
        """The inverse hyperbolic sines."""
        return transcendental.asinh(self)

    def acosh(self) -> Tensor:
        """The inverse hyperbolic cosines."""
        return transcendental.acosh(self)

    def atanh(self) -> Tensor:
        """The inverse hyperbolic tangents."""
        return transcendental.atanh(self)

    def erf(self) -> Tensor:
        """The error function."""
        return transcendental.erf(self)

    def erfinv(self) -> Tensor:
        """The inverse of the error function."""
        return transcendental.erfinv(self)

    def lgamma(self) -> Tensor:
        """The logarithms of the absolute values of the gamma function."""
        return transcendental.lgamma(self)

    def digamma(self) -> Tensor:
        """The derivatives of ``lgamma``."""
        return transcendental.digamma(self)

    def isnan(self) -> Tensor:
        """True where an element is not a number."""
        return logic.isnan(self)

    def isinf(self) -> Tensor:
        """True where an element is infinite."""
        return logic.isinf(self)

    def isfinite(self) -> Tensor:
        """True where an element is neither infinite nor NaN."""
        return logic.isfinite(self)

    def signbit(self) -> Tensor:
        """True where the sign bit is set."""
        return logic.signbit(self)

    def logical_not(self) -> Tensor:
        """True where an element is 0 or False."""
        return logic.logical_not(self)

    def pow(self, other: Operand) -> Tensor:
        """The elements to the power of ``other``."""
        return elementwise.pow(self, other)

    def maximum(self, other: Operand) -> Tensor:
        """The larger of each pair of elements."""
        return elementwise.maximum(self, other)

    def minimum(self, other: Operand) -> Tensor:
        """The smaller of each pair of elements."""
        return elementwise.minimum(self, other)

    def atan2(self, other: Operand) -> Tensor:
        """The angle in radians of the point (``other``, x)."""
        return transcendental.atan2(self, other)

    def logical_and(self, other: Operand) -> Tensor:
        """True where both are not 0."""
        return logic.logical_and(self, other)

    def logical_or(self, other: Operand) -> Tensor:
        """True where at least one is not 0."""
        return logic.logical_or(self, other)

    def logical_xor(self, other: Operand) -> Tensor:
        """True where exactly one is not 0."""
        return logic.logical_xor(self, other)

    def round(self, decimals: int = 0) -> Tensor:
        """The elements rounded to ``decimals`` places, halves to the even neighbour."""
        return elementwise.round(self, decimals=decimals)

    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """The elements brought into the range from ``min`` to ``max``."""
        return elementwise.clip(self, min, max)

    def nan_to_num(
        self, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
    ) -> Tensor:
        """The elements with NaN and infinities replaced by numbers."""
        return elementwise.nan_to_num(self, nan=nan, posinf=posinf, neginf=neginf)
