"""Orthogonal polynomials of a degree that is a number or a tensor, by their recurrences.

Requirements: the degree may differ from element to element. One loop runs up to the largest degree;
an element keeps its value once it has its own. Inside [−1, 1] and for the degrees in use the
recurrences are stable (DLMF 18.9).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from calor import dtypes
from calor.functions.operands import as_tensor, as_tensors, stretched, together
from calor.ops import elementwise as e
from calor.ops import reductions
from calor.ops.composites import like, wide
from calor.ops.movement import fill
from calor.recording.recipes import broadcast_shapes
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


def _recurrence(x: Any, n: Any, first: Callable[[Any], Any], step: Step) -> Any:
    """Return the polynomial of degree n, from those of degree 0 (which is 1) and 1."""
    from calor.transforms.control import fori_loop

    def advance(k: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        before, now = state
        place = e.cast(k + 1, dtype=x.dtype)
        later = step(place, x, before, now)
        more = n > place
        return e.where(more, now, before), e.where(more, later, now)

    one = fill(x, 1)
    if isinstance(n, int):
        count = n - 1
        n = fill(x, n)
    else:
        n = e.floor(n)
        if not n.size:
            return x
        count = e.cast(reductions.max(n, axes=tuple(range(n.ndim))), dtype=dtypes.int64) - 1
    made = fori_loop(0, count, advance, (one, first(x)))[1]
    made = e.where(n >= 1, made, one)
    return e.where(n < 0, fill(x, 0), made)


def _floating(x: Any, n: Any) -> Any:
    return floating(as_tensors(x, n)[0])


def _polynomial(x: Any, n: Any, first: Callable[[Any], Any], step: Step) -> Tensor:
    if isinstance(n, int):
        x = floating(as_tensor(x))
        return like(_recurrence(wide(x), n, first, step), x)  # type: ignore[no-any-return]
    x, n = together([*map(floating, as_tensors(x, n))], "the polynomial")
    shape = broadcast_shapes("the polynomial", (x._value.spec, n._value.spec))
    x, n = stretched(x, shape), stretched(n, shape)
    return like(_recurrence(wide(x), wide(n), first, step), x)  # type: ignore[no-any-return]


def _chebyshev(k: Any, x: Any, before: Any, now: Any) -> Any:
    return x * now * 2 - before


def chebyshev_polynomial_t(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the first kind of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0.

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
    return _polynomial(x, n, lambda x: x, _chebyshev)


def chebyshev_polynomial_u(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the second kind of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0.

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
    return _polynomial(x, n, lambda x: x * 2, _chebyshev)


def chebyshev_polynomial_v(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the third kind of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0.

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
    return _polynomial(x, n, lambda x: x * 2 - 1, _chebyshev)


def chebyshev_polynomial_w(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the fourth kind of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0.

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
    return _polynomial(x, n, lambda x: x * 2 + 1, _chebyshev)


def shifted_chebyshev_polynomial_t(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the first kind at 2 x − 1 of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0.

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
    return _polynomial(_floating(x, n) * 2 - 1, n, lambda x: x, _chebyshev)


def shifted_chebyshev_polynomial_u(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the second kind at 2 x − 1 of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0.

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
    return _polynomial(_floating(x, n) * 2 - 1, n, lambda x: x * 2, _chebyshev)


def shifted_chebyshev_polynomial_v(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the third kind at 2 x − 1 of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0.

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
    return _polynomial(_floating(x, n) * 2 - 1, n, lambda x: x * 2 - 1, _chebyshev)


def shifted_chebyshev_polynomial_w(x: Operand, n: Operand, /) -> Tensor:
    """Return the Chebyshev polynomial of the fourth kind at 2 x − 1 of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0.

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
    return _polynomial(_floating(x, n) * 2 - 1, n, lambda x: x * 2 + 1, _chebyshev)


def hermite_polynomial_h(x: Operand, n: Operand, /) -> Tensor:
    """Return the physicist's Hermite polynomial of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0.

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
    return _polynomial(x, n, lambda x: x * 2, lambda k, x, before, now: (x * now - k * before) * 2)


def hermite_polynomial_he(x: Operand, n: Operand, /) -> Tensor:
    """Return the probabilist's Hermite polynomial of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0.

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
    return _polynomial(x, n, lambda x: x, lambda k, x, before, now: x * now - k * before)


def laguerre_polynomial_l(x: Operand, n: Operand, /) -> Tensor:
    """Return the Laguerre polynomial of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0.

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
    return _polynomial(
        x,
        n,
        lambda x: 1 - x,
        lambda k, x, before, now: ((k * 2 + 1 - x) * now - k * before) / (k + 1),
    )


def legendre_polynomial_p(x: Operand, n: Operand, /) -> Tensor:
    """Return the Legendre polynomial of degree n.

    Parameters
    ----------
    x : Tensor, ndarray or number
        Any shape; any real dtype. Integers and booleans are computed in the default floating dtype.
    n : int or Tensor
        The degree; a tensor broadcasts with ``x``. A negative degree gives 0.

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
    return _polynomial(
        x, n, lambda x: x, lambda k, x, before, now: ((k * 2 + 1) * x * now - k * before) / (k + 1)
    )
