"""Methods that compute element by element; each calls the function of its name."""

from __future__ import annotations

from calor.functions import (
    circular,
    complex_parts,
    elementwise,
    logic,
    rounding,
    signs,
    special,
    transcendental,
)
from calor.tensor.tensor import Operand, Tensor, with_methods


@with_methods
class ElementwiseMethods(Tensor):
    """Arithmetic, exponentials, circular functions, rounding and tests of each element."""

    __slots__ = ()

    @property
    def real(self) -> Tensor:
        """The real parts; of a real tensor the tensor itself."""
        return complex_parts.real(self)

    @property
    def imag(self) -> Tensor:
        """The imaginary parts; of a real tensor zeros."""
        return complex_parts.imag(self)

    def abs(self) -> Tensor:
        """Return the absolute values; of complex elements they are real.

        Returns
        -------
        Tensor
            The shape of the tensor.
        """
        return signs.abs(self)

    def sign(self) -> Tensor:
        """Return the signs: −1, 0 or 1; of complex elements x / |x|.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.
        """
        return signs.sign(self)

    def square(self) -> Tensor:
        """Return the squares.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.
        """
        return elementwise.square(self)

    def reciprocal(self) -> Tensor:
        """Return one divided by each element.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return elementwise.reciprocal(self)

    def floor(self) -> Tensor:
        """Return the largest whole numbers that are not above.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.
        """
        return rounding.floor(self)

    def ceil(self) -> Tensor:
        """Return the smallest whole numbers that are not below.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.
        """
        return rounding.ceil(self)

    def trunc(self) -> Tensor:
        """Return the elements without their fractions.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.
        """
        return rounding.trunc(self)

    def conj(self) -> Tensor:
        """Return the complex conjugates.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.
        """
        return complex_parts.conj(self)

    def sqrt(self) -> Tensor:
        """Return the square roots.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return transcendental.sqrt(self)

    def exp(self) -> Tensor:
        """Return the exponentials.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return transcendental.exp(self)

    def exp2(self) -> Tensor:
        """Return two to the power of each element.

        Returns
        -------
        Tensor
            The shape of the tensor, a real floating dtype.
        """
        return transcendental.exp2(self)

    def expm1(self) -> Tensor:
        """Return ``exp(x) - 1``, accurate near 0.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return transcendental.expm1(self)

    def log(self) -> Tensor:
        """Return the natural logarithms.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return transcendental.log(self)

    def log2(self) -> Tensor:
        """Return the logarithms to base 2.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return transcendental.log2(self)

    def log10(self) -> Tensor:
        """Return the logarithms to base 10.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return transcendental.log10(self)

    def log1p(self) -> Tensor:
        """Return ``log(1 + x)``, accurate near 0.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return transcendental.log1p(self)

    def sin(self) -> Tensor:
        """Return the sines of angles in radians.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return circular.sin(self)

    def cos(self) -> Tensor:
        """Return the cosines of angles in radians.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return circular.cos(self)

    def tan(self) -> Tensor:
        """Return the tangents of angles in radians.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return circular.tan(self)

    def asin(self) -> Tensor:
        """Return the inverse sines, in radians.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return circular.asin(self)

    def acos(self) -> Tensor:
        """Return the inverse cosines, in radians.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return circular.acos(self)

    def atan(self) -> Tensor:
        """Return the inverse tangents, in radians.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return circular.atan(self)

    def sinh(self) -> Tensor:
        """Return the hyperbolic sines.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return circular.sinh(self)

    def cosh(self) -> Tensor:
        """Return the hyperbolic cosines.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return circular.cosh(self)

    def tanh(self) -> Tensor:
        """Return the hyperbolic tangents.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return circular.tanh(self)

    def asinh(self) -> Tensor:
        """Return the inverse hyperbolic sines.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return circular.asinh(self)

    def acosh(self) -> Tensor:
        """Return the inverse hyperbolic cosines.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return circular.acosh(self)

    def atanh(self) -> Tensor:
        """Return the inverse hyperbolic tangents.

        Returns
        -------
        Tensor
            The shape of the tensor, a floating or complex dtype.
        """
        return circular.atanh(self)

    def erf(self) -> Tensor:
        """Return the error function.

        Returns
        -------
        Tensor
            The shape of the tensor, a real floating dtype.
        """
        return special.erf(self)

    def erfinv(self) -> Tensor:
        """Return the inverse of the error function.

        Returns
        -------
        Tensor
            The shape of the tensor, a real floating dtype.
        """
        return special.erfinv(self)

    def lgamma(self) -> Tensor:
        """Return the logarithms of the absolute values of the gamma function.

        Returns
        -------
        Tensor
            The shape of the tensor, a real floating dtype.
        """
        return special.lgamma(self)

    def digamma(self) -> Tensor:
        """Return the derivatives of `lgamma`.

        Returns
        -------
        Tensor
            The shape of the tensor, a real floating dtype.
        """
        return special.digamma(self)

    def isnan(self) -> Tensor:
        """Tell for each element whether it is NaN.

        Returns
        -------
        Tensor
            Dtype bool, the shape of the tensor.
        """
        return logic.isnan(self)

    def isinf(self) -> Tensor:
        """Tell for each element whether it is infinite.

        Returns
        -------
        Tensor
            Dtype bool, the shape of the tensor.
        """
        return logic.isinf(self)

    def isfinite(self) -> Tensor:
        """Tell for each element whether it is neither NaN nor infinite.

        Returns
        -------
        Tensor
            Dtype bool, the shape of the tensor.
        """
        return logic.isfinite(self)

    def signbit(self) -> Tensor:
        """Tell for each element whether its sign bit is set.

        Returns
        -------
        Tensor
            Dtype bool, the shape of the tensor.
        """
        return logic.signbit(self)

    def logical_not(self) -> Tensor:
        """Tell for each element whether it is 0.

        Returns
        -------
        Tensor
            Dtype bool, the shape of the tensor.
        """
        return logic.logical_not(self)

    def pow(self, other: Operand) -> Tensor:
        """Return the elements to the power of another.

        Parameters
        ----------
        other : Tensor, ndarray or number
            The exponents. It broadcasts against the tensor.

        Returns
        -------
        Tensor
            The broadcast shape, the common dtype.
        """
        return elementwise.pow(self, other)

    def maximum(self, other: Operand) -> Tensor:
        """Return the larger of each pair of elements.

        Parameters
        ----------
        other : Tensor, ndarray or number
            It broadcasts against the tensor.

        Returns
        -------
        Tensor
            The broadcast shape, the common dtype.
        """
        return elementwise.maximum(self, other)

    def minimum(self, other: Operand) -> Tensor:
        """Return the smaller of each pair of elements.

        Parameters
        ----------
        other : Tensor, ndarray or number
            It broadcasts against the tensor.

        Returns
        -------
        Tensor
            The broadcast shape, the common dtype.
        """
        return elementwise.minimum(self, other)

    def atan2(self, other: Operand) -> Tensor:
        """Return the angle of the point (other, x), in radians.

        Parameters
        ----------
        other : Tensor, ndarray or number
            The first coordinates. It broadcasts against the tensor.

        Returns
        -------
        Tensor
            The broadcast shape, a real floating dtype.
        """
        return circular.atan2(self, other)

    def logical_and(self, other: Operand) -> Tensor:
        """Tell for each pair of elements whether both are not 0.

        Parameters
        ----------
        other : Tensor, ndarray or number
            It broadcasts against the tensor.

        Returns
        -------
        Tensor
            Dtype bool, the broadcast shape.
        """
        return logic.logical_and(self, other)

    def logical_or(self, other: Operand) -> Tensor:
        """Tell for each pair of elements whether at least one is not 0.

        Parameters
        ----------
        other : Tensor, ndarray or number
            It broadcasts against the tensor.

        Returns
        -------
        Tensor
            Dtype bool, the broadcast shape.
        """
        return logic.logical_or(self, other)

    def logical_xor(self, other: Operand) -> Tensor:
        """Tell for each pair of elements whether exactly one is not 0.

        Parameters
        ----------
        other : Tensor, ndarray or number
            It broadcasts against the tensor.

        Returns
        -------
        Tensor
            Dtype bool, the broadcast shape.
        """
        return logic.logical_xor(self, other)

    def round(self, decimals: int = 0) -> Tensor:
        """Return the elements rounded, halves to the even neighbour.

        Parameters
        ----------
        decimals : int, optional
            The places after the decimal point. By default 0.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.
        """
        return rounding.round(self, decimals=decimals)

    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Return the elements limited to a range; see `calor.clip`.

        Parameters
        ----------
        min : Tensor, ndarray or number, optional
            The lower bound. By default there is none.
        max : Tensor, ndarray or number, optional
            The upper bound. By default there is none.

        Returns
        -------
        Tensor
            The broadcast shape, the common dtype.
        """
        return rounding.clip(self, min, max)

    def nan_to_num(
        self, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
    ) -> Tensor:
        """Return the elements with NaN and infinities replaced by finite numbers.

        Parameters
        ----------
        nan : float, optional
            Replaces NaN. By default 0.
        posinf : float, optional
            Replaces inf. By default the largest finite number.
        neginf : float, optional
            Replaces −inf. By default the smallest finite number.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.
        """
        return rounding.nan_to_num(self, nan=nan, posinf=posinf, neginf=neginf)
