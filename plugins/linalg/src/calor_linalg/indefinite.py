"""Factors L D Lᵀ of symmetric and Hermitian matrices that need not be definite.

Requirements: the packed form and the choice of pivots are LAPACK's (``sytrf``, ``hetrf``: Bunch and
Kaufman's partial pivoting), so that factors can be exchanged with PyTorch and LAPACK. Each matrix
of a batch has its own pivots, so a step is made of masks and not of slices.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from calor.dtypes import int64
from calor.errors import DTypeError, ShapeError
from calor.functions.operands import as_tensor, stretched, together
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops.indexing import take_along
from calor.ops.movement import expand, reshape
from calor_linalg import definitions, rules
from calor_linalg import matrices as mx
from calor_linalg.factored import columns_of, pair_of

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor

# The ratio of a pivot to the largest element beside it that bounds the growth of elements.
_RATIO: Final = (1 + math.sqrt(17)) / 8


class LDLFactors(NamedTuple):
    """Factors of a batch of symmetric or Hermitian matrices in LAPACK's form.

    Attributes
    ----------
    LD : Tensor
        Shape (..., M, M). D, of blocks of one and two rows, on the diagonal and below it; L without
        its ones below these blocks. Zeros above the diagonal.
    pivots : Tensor
        Shape (..., M), int64, counted from 1. A positive number is the row that row i was exchanged
        with, for a block of one row. A negative one, twice for a block of two rows, is that of the
        block's second row.
    """

    LD: Tensor
    pivots: Tensor


def ldl_factor(x: Operand, /, *, hermitian: bool = False) -> LDLFactors:
    """Return factors L D Lᵀ of symmetric matrices, or L D Lᴴ of Hermitian ones.

    Only the lower triangle of `x` is read.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, M) in float32, float64, complex64 or complex128.
    hermitian : bool, default False
        Whether complex matrices are Hermitian rather than symmetric.

    Returns
    -------
    LDLFactors
        The packed factors in the shape and dtype of `x`, and the exchanges of rows.

    Raises
    ------
    ShapeError
        If `x` has fewer than two axes, or its matrices are not square.
    DTypeError
        If `x` has another dtype.

    See Also
    --------
    ldl_solve : Solves systems with these factors.

    References
    ----------
    Bunch and Kaufman, "Some stable methods for calculating inertia and solving symmetric linear
    systems", 1977. LAPACK, routines ``sytrf`` and ``hetrf``.

    Examples
    --------
    >>> import calor
    >>> factors = calor.linalg.ldl_factor(calor.asarray([[0.0, 1.0], [1.0, 0.0]]))
    >>> factors.pivots.tolist()
    [-2, -2]
    >>> calor.linalg.ldl_solve(factors, calor.asarray([2.0, 3.0])).tolist()
    [3.0, 2.0]
    """
    x = as_tensor(x)
    rules.square("ldl_factor", x._value.spec)
    below = mx.lower(x, strict=True)
    above = mx.adjoint(below) if hermitian else mx.transposed(below)
    middle = mx.diagonal(x)
    if hermitian:
        middle = mx.as_type(mx.real_part(middle), x)
    whole = below + above + mx.diagonal_matrix(middle)
    row, _ = mx.row_and_column(x)
    places = mx.places(middle)

    def step(k: Any, state: Any) -> Any:
        return _step(k, state, row, places, hermitian)

    # The last of the state: 1 where the column before began a block of two.
    begun = r.sum(places * 0, axes=(places.ndim - 1,), dtype=int64)
    start = whole, mx.zeros(x), mx.zeros(places), begun
    return LDLFactors(*definitions.repeat(x.shape[-1], step, start)[1:3])


def _step(k: Any, state: Any, row: Any, places: Any, hermitian: bool) -> Any:
    """Eliminate a block of one or two columns, unless column k is the second of a block."""
    whole, packed, pivots, second = state
    taken = second > 0
    pivot, two = _choice(k, whole, places, hermitian)
    two = two & ~taken
    first = expand(k, shape=pivot.shape)
    other = e.where(two, first + 1, first)
    pivot = e.where(taken, first, pivot)
    whole = _exchanged_both(whole, e.where(taken, first, other), pivot, places)
    # The columns of the block, the second of which is not there for a block of one.
    last = places.shape[-1] - 1
    following = e.where(first < last, first + 1, first)
    left, right = mx.column_at(whole, k), _column(whole, following, row)
    corner, lower = mx.element_at(left, k), _element(left, following, places)
    end = _element(right, following, places)
    upper = e.conjugate(lower) if hermitian else lower
    beyond = places > mx.broad_element(other, places)
    single = mx.masked(beyond, mx.quotient(left, mx.broad_element(corner, left)))
    # The inverse of a block of two, scaled by its element beside the diagonal.
    safe = e.where(two, lower, mx.ones(lower))
    raised = e.where(two, upper, mx.ones(upper))
    top, bottom = corner / raised, end / safe
    scale = top * bottom - mx.ones(top)
    scale = e.where(two, scale, mx.ones(scale))

    def over(t: Any) -> Any:
        return mx.broad_element(t, left)

    one = (over(bottom) * left - right) / over(raised * scale)
    nearer = (over(top) * right - left) / over(safe * scale)
    pair = over(two)
    factor = e.where(pair, mx.masked(beyond, one), single)
    more = mx.masked(pair & beyond, nearer)
    conjugated = (e.conjugate(left), e.conjugate(right)) if hermitian else (left, right)
    change = mx.broad_column(factor, whole) * mx.broad_row(conjugated[0], whole)
    change = change + mx.broad_column(more, whole) * mx.broad_row(conjugated[1], whole)
    kept = mx.broad_number(taken, whole)
    rest = whole - change
    if hermitian and rest.dtype.is_complex:
        # Rounding leaves imaginary parts on the diagonal, which would grow.
        rest = e.where(row == mx.transposed(row), mx.as_type(e.real(rest), rest), rest)
    whole = e.where(kept, whole, rest)
    here = e.equal(places, over(first))
    there = e.equal(places, over(following)) & pair
    column = e.where(here, over(corner), e.where(there, over(lower), factor))
    beside = e.where(there, over(end), more)
    packed = _with_column(packed, first, column, ~taken)
    packed = _with_column(packed, following, beside, two)
    told = e.where(two, -(pivot + 1), pivot + 1)
    mine = (here & over(~taken)) | there
    return whole, packed, e.where(mine, over(told), pivots), e.cast(two, dtype=int64)


def _choice(k: Any, whole: Any, places: Any, hermitian: bool) -> tuple[Any, Any]:
    """Return the row that is exchanged, and whether the block has two rows."""
    column = mx.column_at(whole, k)
    axes = (places.ndim - 1,)
    size = _size(column)
    none = mx.zeros(size)
    below = places > expand(k, shape=places.shape)
    own = _diagonal_size(mx.element_at(column, k), hermitian)
    outside = e.where(below, size, none)
    largest = r.max(outside, axes=axes)
    found = below & e.equal(outside, mx.broad_element(largest, outside))
    first = expand(k, shape=largest.shape)
    last = mx.filled(places, places.shape[-1])
    far = r.min(e.where(found, places, last), axes=axes)
    far = e.where(far < places.shape[-1], far, first)
    row = _column(whole, far, mx.row_and_column(whole)[0])
    spot = e.equal(places, mx.broad_element(far, places))
    beside = (places >= expand(k, shape=places.shape)) & ~spot
    widest = r.max(e.where(beside, _size(row), none), axes=axes)
    theirs = _diagonal_size(_element(row, far, places), hermitian)
    mine = own >= largest * _RATIO
    # The quotient is at most 1, as the largest element of the column is in that row too.
    bound = largest * _RATIO * mx.quotient(largest, widest)
    mine = mine | (own >= bound) | ~((own > 0) | (largest > 0))
    swapped = theirs >= widest * _RATIO
    return e.where(mine, first, far), ~mine & ~swapped


def _size(x: Any) -> Any:
    """Return |re| + |im|, by which LAPACK chooses pivots."""
    return e.abs(e.real(x)) + e.abs(e.imag(x)) if x.dtype.is_complex else e.abs(x)


def _diagonal_size(x: Any, hermitian: bool) -> Any:
    return e.abs(mx.real_part(x)) if hermitian else _size(x)


def _column(x: Any, number: Any, row: Any) -> Any:
    """Return the column of each matrix that has a number of its own, from symmetric row numbers."""
    hits = e.equal(mx.transposed(row), mx.broad_number(number, row))
    return r.sum(mx.masked(hits, x), axes=(x.ndim - 1,), dtype=x.dtype)


def _element(v: Any, number: Any, places: Any) -> Any:
    """Return the element of each vector that has a number of its own."""
    hits = e.equal(places, mx.broad_element(number, places))
    return r.sum(mx.masked(hits, v), axes=(v.ndim - 1,), dtype=v.dtype)


def _with_column(x: Any, number: Any, column: Any, there: Any) -> Any:
    """Return matrices with a column of a number of their own, in those that are ``there``."""
    _, across = mx.row_and_column(x)
    hits = e.equal(across, mx.broad_number(number, across)) & mx.broad_number(there, across)
    return e.where(hits, mx.broad_column(column, x), x)


def _exchange(a: Any, b: Any, places: Any) -> Any:
    """Return the order of places in which two, of each vector, are exchanged."""
    one, two = mx.broad_element(a, places), mx.broad_element(b, places)
    return e.where(e.equal(places, one), two, e.where(e.equal(places, two), one, places))


def _exchanged_both(x: Any, a: Any, b: Any, places: Any) -> Any:
    """Return matrices with two rows, and the same columns, exchanged."""
    order = _exchange(a, b, places)
    x = take_along(x, mx.broad_column(order, x), axis=x.ndim - 2)
    return take_along(x, mx.broad_row(order, x), axis=x.ndim - 1)


def ldl_solve(
    factors: LDLFactors | tuple[Tensor, Tensor], b: Operand, /, *, hermitian: bool = False
) -> Tensor:
    """Return the solution X of the linear system A X = b from the factors of `ldl_factor`.

    Parameters
    ----------
    factors : LDLFactors
        What `ldl_factor` gave of matrices A, of shape (..., M, M).
    b : Tensor, array or number
        A vector of shape (M,), or columns of shape (..., M, K). Axes before the last two broadcast.
    hermitian : bool, default False
        Whether complex matrices were factorized as Hermitian ones.

    Returns
    -------
    Tensor
        The solution, in the shape of `b` with the batch axes of the factors.

    Raises
    ------
    ShapeError
        If the matrices are not square, or the shapes do not fit.
    DTypeError
        If the dtypes have no common type, linear algebra does not compute in it, or the exchanges
        are no integers.

    References
    ----------
    LAPACK, routines ``sytrs`` and ``hetrs``.

    Examples
    --------
    >>> import calor
    >>> factors = calor.linalg.ldl_factor(calor.asarray([[4.0, 2.0], [2.0, -3.0]]))
    >>> calor.linalg.ldl_solve(factors, calor.asarray([6.0, -1.0])).tolist()
    [1.0, 1.0]
    """
    packed, pivots = pair_of("ldl_solve", factors, "ldl_factor")
    rules.square("ldl_solve", packed._value.spec)
    if not pivots.dtype.is_integer or pivots.shape != packed.shape[:-1]:
        kind = ShapeError if pivots.dtype.is_integer else DTypeError
        raise kind(
            f"ldl_solve: exchanges of {pivots.dtype.name}{list(pivots.shape)} do not fit factors "
            f"of shape {packed.shape}; pass both results of calor.linalg.ldl_factor"
        )
    packed, right = together([packed, b], "ldl_solve")
    a, x, vector = columns_of("ldl_solve", packed, right)
    pivots = e.cast(stretched(pivots, a.shape[:-1]), dtype=int64)
    x = _solved(a, pivots, x, hermitian) if a.shape[-1] else x
    return reshape(x, shape=x.shape[:-1]) if vector else x  # type: ignore[no-any-return]


def _solved(a: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    count = a.shape[-1]
    places, row = mx.places(pivots), mx.row_and_column(b)[0]
    pairs = pivots < 0
    before = r.cumsum(e.cast(pairs, dtype=int64), axis=places.ndim - 1, reverse=False)
    opens = pairs & e.equal(before - before // 2 * 2, mx.ones(before))
    closes = pairs & ~opens
    targets = e.abs(pivots) - 1
    # L without the elements that belong to D.
    down, across = mx.row_and_column(a)
    inside = e.equal(down, across + 1) & mx.broad_row(opens, a)
    low = mx.masked((down > across) & ~inside, a)

    def exchanged(x: Any, k: Any) -> Any:
        """Return rows as the block that begins in row k exchanges them."""
        first = expand(k, shape=x.shape[:-2])
        open_, close = mx.element_at(opens, k), mx.element_at(closes, k)
        mine = e.where(open_, first + 1, first)
        order = _exchange(mine, e.where(close, first, mx.element_at(targets, k)), places)
        return take_along(x, mx.broad_column(order, x), axis=x.ndim - 2)

    def forward(k: Any, x: Any) -> Any:
        x = exchanged(x, k)
        return x - mx.broad_column(mx.column_at(low, k), x) * mx.broad_row(mx.row_at(x, k), x)

    def backward(i: Any, x: Any) -> Any:
        k = (count - 1) - i
        column = mx.column_at(low, k)
        column = e.conjugate(column) if hermitian else column
        rest = mx.broad_row(mx.vector_times(column, x), x)
        return exchanged(e.where(row == k, x - rest, x), k)

    x = definitions.repeat(count, forward, b)
    x = _divided(a, x, opens, closes, hermitian)
    return definitions.repeat(count, backward, x)


def _divided(a: Any, b: Any, opens: Any, closes: Any, hermitian: bool) -> Any:
    """Return D⁻¹ b, of blocks of one and two rows."""
    places = mx.places(opens)
    middle = mx.diagonal(a)
    step = e.where(opens, places + 1, e.where(closes, places - 1, places))
    down, across = mx.row_and_column(a)
    low = r.sum(mx.masked(e.equal(down, across + 1), a), axes=(a.ndim - 2,), dtype=a.dtype)
    # The element of D beside the diagonal: of a block's first row, and of its second.
    low = e.where(opens, low, take_along(low, step, axis=low.ndim - 1))
    up = e.conjugate(low) if hermitian else low
    pair = opens | closes
    low, up = (e.where(pair, t, mx.ones(t)) for t in (low, up))
    mine, theirs = e.where(opens, up, low), e.where(opens, low, up)
    own = middle / mine
    other = take_along(middle, step, axis=middle.ndim - 1) / theirs
    scale = e.where(pair, own * other - mx.ones(own), mx.ones(own))
    near = b / mx.broad_column(mine, b)
    far = take_along(b, mx.broad_column(step, b), axis=b.ndim - 2) / mx.broad_column(theirs, b)
    two = (mx.broad_column(other, b) * near - far) / mx.broad_column(scale, b)
    single = b / mx.broad_column(e.where(pair, mx.ones(middle), middle), b)
    return e.where(mx.broad_column(pair, b), two, single)
