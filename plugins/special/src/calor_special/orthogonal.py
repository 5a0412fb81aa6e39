"""Orthogonal polynomials of a degree that is a number or a tensor, by their recurrences.

Requirements: the degree may differ from element to element. One loop runs up to the largest degree;
an element keeps its value once it has its own. Inside [−1, 1] and for the degrees in use the
recurrences are stable (DLMF 18.9). No degree makes the loop endless: Chebyshev polynomials of large
degrees have a closed form, Hermite polynomials exceed every number, and Legendre and Laguerre
polynomials, whose recurrence is the only way known to be exact, have a largest degree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from calor import dtypes
from calor.errors import DTypeError
from calor.functions.operands import as_operands, as_tensor, stretched, together
from calor.ops import elementwise as e
from calor.ops import reductions
from calor.ops.composites import like, wide
from calor.ops.movement import fill
from calor.recording.recipes import broadcast_shapes
from calor_special.chebyshev import FAR, first_kind, second_kind
from calor_special.tools import floating

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor

__all__ = [
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
]

# A step from degrees k − 1 and k to k + 1: f(k, x, before, now).
Step = Callable[[Any, Any, Any, Any], Any]
# The largest degree of Legendre and Laguerre polynomials: some seconds on a slow device.
_MOST: Final = 1 << 16
# Beyond these degrees Hermite polynomials exceed float32 and float64 but at their zeros.
_LARGEST_HERMITE: Final = {"float32": 128, "float64": 512}


@dataclass(frozen=True)
class _Family:
    """Polynomials of all degrees; that of degree 0 is 1.

    ``first``: x to the one of degree 1. ``last``: the largest degree of the recurrence, for a
    dtype. ``far``: x and larger degrees to polynomials; NaN without it.
    """

    first: Callable[[Any], Any]
    step: Step
    last: Callable[[Any], int]
    far: Callable[[Any, Any], Any] | None = None


def _of_degree(x: Any, n: int, family: _Family) -> Any:
    """Return the polynomial of one degree."""
    from calor.transforms.control import fori_loop

    def advance(k: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        before, now = state
        return now, family.step(e.cast(k + 1, dtype=x.dtype), x, before, now)

    if n <= 0:
        return fill(x, 1 if n == 0 else 0)
    if n > family.last(x):
        # The largest double stands for degrees beyond it.
        return _beyond(x, fill(x, float(n) if n < 1 << 1023 else math.inf), family)
    return fori_loop(0, n - 1, advance, (fill(x, 1), family.first(x)))[1]


def _of_degrees(x: Any, n: Any, family: _Family) -> Any:
    """Return the polynomials of a degree for each element."""
    from calor.transforms.control import fori_loop

    def advance(k: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        before, now = state
        place = e.cast(k + 1, dtype=x.dtype)
        later = family.step(place, x, before, now)
        more = n > place
        return e.where(more, now, before), e.where(more, later, now)

    if not n.size:
        return x
    n = e.floor(n)
    last = fill(n, family.last(x))
    # Comparisons with NaN are false: such a degree takes no step.
    steps = e.where(n <= last, n, fill(n, 0))
    count = e.cast(reductions.max(steps, axes=tuple(range(n.ndim))), dtype=dtypes.int64) - 1
    one = fill(x, 1)
    made = fori_loop(0, count, advance, (one, family.first(x)))[1]
    made = e.where(n >= 1, made, one)
    made = e.where(n <= last, made, _beyond(x, n, family))
    return e.where(n < 0, fill(x, 0), made)


def _beyond(x: Any, n: Any, family: _Family) -> Any:
    """Return the polynomials of degrees beyond the recurrence; NaN for no degree at all."""
    undefined = fill(x, math.nan)
    return undefined if family.far is None else e.where(e.isfinite(n), family.far(x, n), undefined)


def _floating(x: Any, n: Any) -> Any:
    # An int is a number of steps, no operand.
    return floating(as_tensor(x) if isinstance(n, int) else as_operands(x, n, floating=True)[0])


def _real(x: Any) -> Any:
    """Return an operand as floating; DTypeError for a complex dtype or one of storage alone."""
    made = floating(x)
    if wide(made).dtype not in (dtypes.float32, dtypes.float64):
        raise DTypeError(
            f"an orthogonal polynomial needs real operands, not {x.dtype.name}; cast with "
            "x.astype(...)"
        )
    return made


def _polynomial(x: Any, n: Any, family: _Family) -> Tensor:
    if isinstance(n, int):
        x = _real(as_tensor(x))
        return like(_of_degree(wide(x), n, family), x)  # type: ignore[no-any-return]
    x, n = together([*map(_real, as_operands(x, n, floating=True))], "the polynomial")
    shape = broadcast_shapes("the polynomial", (x._value.spec, n._value.spec))
    x, n = stretched(x, shape), stretched(n, shape)
    return like(_of_degrees(wide(x), wide(n), family), x)  # type: ignore[no-any-return]


def _chebyshev(first: Callable[[Any], Any], far: Callable[[Any, Any], Any]) -> _Family:
    return _Family(first, lambda k, x, before, now: x * now * 2 - before, lambda x: FAR, far)


def _hermite(first: Callable[[Any], Any], step: Step) -> _Family:
    return _Family(first, step, lambda x: _LARGEST_HERMITE[x.dtype.name])


def _of_second_kind(sign: int, x: Any, n: Any) -> Any:
    """Return Uₙ plus or minus Uₙ₋₁, which is smaller where both are infinite."""
    more = second_kind(x, n)
    return e.where(e.isinf(more), more, more + second_kind(x, n - 1) * sign)


_FIRST = _chebyshev(lambda x: x, first_kind)
_SECOND = _chebyshev(lambda x: x * 2, second_kind)
_THIRD = _chebyshev(lambda x: x * 2 - 1, partial(_of_second_kind, -1))
_FOURTH = _chebyshev(lambda x: x * 2 + 1, partial(_of_second_kind, 1))
_PHYSICIST = _hermite(lambda x: x * 2, lambda k, x, before, now: (x * now - k * before) * 2)
_PROBABILIST = _hermite(lambda x: x, lambda k, x, before, now: x * now - k * before)
_LAGUERRE = _Family(
    lambda x: 1 - x,
    lambda k, x, before, now: ((k * 2 + 1 - x) * now - k * before) / (k + 1),
    lambda x: _MOST,
)
_LEGENDRE = _Family(
    lambda x: x,
    lambda k, x, before, now: ((k * 2 + 1) * x * now - k * before) / (k + 1),
    lambda x: _MOST,
)


def chebyshev_polynomial_t(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the first kind of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0, one that is not
        finite NaN.

    Returns
    -------
    Tensor
        The broadcast shape and common floating dtype. It has a gradient by ``x`` where ``n`` is an
        int.

    Raises
    ------
    DTypeError
        If an operand is complex.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.special.chebyshev_polynomial_t(2.0, 3).item()
    26.0
    """
    return _polynomial(x, n, _FIRST)


def chebyshev_polynomial_u(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the second kind of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0, one that is not
        finite NaN.

    Returns
    -------
    Tensor
        The broadcast shape and common floating dtype. It has a gradient by ``x`` where ``n`` is an
        int.

    Raises
    ------
    DTypeError
        If an operand is complex.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.special.chebyshev_polynomial_u(2.0, 2).item()
    15.0
    """
    return _polynomial(x, n, _SECOND)


def chebyshev_polynomial_v(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the third kind of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0, one that is not
        finite NaN.

    Returns
    -------
    Tensor
        The broadcast shape and common floating dtype. It has a gradient by ``x`` where ``n`` is an
        int.

    Raises
    ------
    DTypeError
        If an operand is complex.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.special.chebyshev_polynomial_v(2.0, 2).item()
    11.0
    """
    return _polynomial(x, n, _THIRD)


def chebyshev_polynomial_w(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the fourth kind of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0, one that is not
        finite NaN.

    Returns
    -------
    Tensor
        The broadcast shape and common floating dtype. It has a gradient by ``x`` where ``n`` is an
        int.

    Raises
    ------
    DTypeError
        If an operand is complex.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.special.chebyshev_polynomial_w(2.0, 2).item()
    19.0
    """
    return _polynomial(x, n, _FOURTH)


def shifted_chebyshev_polynomial_t(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the first kind at 2 x − 1 of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0, one that is not
        finite NaN.

    Returns
    -------
    Tensor
        The broadcast shape and common floating dtype. It has a gradient by ``x`` where ``n`` is an
        int.

    Raises
    ------
    DTypeError
        If an operand is complex.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.special.shifted_chebyshev_polynomial_t(1.5, 3).item()
    26.0
    """
    return _polynomial(_floating(x, n) * 2 - 1, n, _FIRST)


def shifted_chebyshev_polynomial_u(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the second kind at 2 x − 1 of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0, one that is not
        finite NaN.

    Returns
    -------
    Tensor
        The broadcast shape and common floating dtype. It has a gradient by ``x`` where ``n`` is an
        int.

    Raises
    ------
    DTypeError
        If an operand is complex.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.special.shifted_chebyshev_polynomial_u(1.5, 3).item()
    56.0
    """
    return _polynomial(_floating(x, n) * 2 - 1, n, _SECOND)


def shifted_chebyshev_polynomial_v(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the third kind at 2 x − 1 of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0, one that is not
        finite NaN.

    Returns
    -------
    Tensor
        The broadcast shape and common floating dtype. It has a gradient by ``x`` where ``n`` is an
        int.

    Raises
    ------
    DTypeError
        If an operand is complex.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.special.shifted_chebyshev_polynomial_v(1.5, 3).item()
    41.0
    """
    return _polynomial(_floating(x, n) * 2 - 1, n, _THIRD)


def shifted_chebyshev_polynomial_w(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the fourth kind at 2 x − 1 of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0, one that is not
        finite NaN.

    Returns
    -------
    Tensor
        The broadcast shape and common floating dtype. It has a gradient by ``x`` where ``n`` is an
        int.

    Raises
    ------
    DTypeError
        If an operand is complex.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.special.shifted_chebyshev_polynomial_w(1.5, 3).item()
    71.0
    """
    return _polynomial(_floating(x, n) * 2 - 1, n, _FOURTH)


def hermite_polynomial_h(x: Operand, n: Operand, /) -> Tensor:
    """Return the physicist's Hermite polynomial of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0, one above 512 (of
        float32 and half types 128), where values are no finite numbers, NaN.

    Returns
    -------
    Tensor
        The broadcast shape and common floating dtype. It has a gradient by ``x`` where ``n`` is an
        int.

    Raises
    ------
    DTypeError
        If an operand is complex.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.special.hermite_polynomial_h(1.0, 2).item()
    2.0
    """
    return _polynomial(x, n, _PHYSICIST)


def hermite_polynomial_he(x: Operand, n: Operand, /) -> Tensor:
    """Return the probabilist's Hermite polynomial of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0, one above 512 (of
        float32 and half types 128), where values are no finite numbers, NaN.

    Returns
    -------
    Tensor
        The broadcast shape and common floating dtype. It has a gradient by ``x`` where ``n`` is an
        int.

    Raises
    ------
    DTypeError
        If an operand is complex.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.special.hermite_polynomial_he(2.0, 2).item()
    3.0
    """
    return _polynomial(x, n, _PROBABILIST)


def laguerre_polynomial_l(x: Operand, n: Operand, /) -> Tensor:
    """Return the Laguerre polynomial of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0, one above 65536 NaN.

    Returns
    -------
    Tensor
        The broadcast shape and common floating dtype. It has a gradient by ``x`` where ``n`` is an
        int.

    Raises
    ------
    DTypeError
        If an operand is complex.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.special.laguerre_polynomial_l(2.0, 2).item()
    -1.0
    """
    return _polynomial(x, n, _LAGUERRE)


def legendre_polynomial_p(x: Operand, n: Operand, /) -> Tensor:
    """Return the Legendre polynomial of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0, one above 65536 NaN.

    Returns
    -------
    Tensor
        The broadcast shape and common floating dtype. It has a gradient by ``x`` where ``n`` is an
        int.

    Raises
    ------
    DTypeError
        If an operand is complex.
    ShapeError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import calor
    >>> calor.special.legendre_polynomial_p(2.0, 2).item()
    5.5
    """
    return _polynomial(x, n, _LEGENDRE)
