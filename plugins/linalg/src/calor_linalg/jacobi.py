"""Decompositions of eigh and svd into ops, by Jacobi rotations.

Requirements: those of the other factorizations (any device, any batch, a graph of fixed size). A
sweep of Jacobi rotations treats every pair of columns once, half of all columns at a time. Sweeps
repeat until the elements they remove are below rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops.indexing import gather, sort, take_along
from calor.ops.movement import concat, number_like, pad
from calor.ops.sources import HostArray, constant
from calor_linalg import matrices as mx
from calor_linalg.definitions import repeat
from calor_linalg.rows import qr

# Sweeps at most; they converge quadratically, in 6 to 10.
_SWEEPS = 30


class _Pairs:
    """A round-robin order of 2h columns: every pair occurs once in 2h − 1 rounds.

    Each round pairs column k with column k + h, for all k at once (Brent and Luk, "The solution of
    singular-value and symmetric eigenvalue problems on multiprocessor arrays", 1985).
    """

    def __init__(self, like: Any, count: int) -> None:

        half = (count + 1) // 2
        self.half, self.count, self.rounds = half, 2 * half, 2 * half - 1
        order = list(range(self.count))
        if half > 1:
            order = [0, half, *range(1, half - 1), *range(half + 1, self.count), half - 1]
        with like.device:
            self.order = constant(array=HostArray.of(np.array(order, np.int64)), weak=False)

    def padded(self, x: Any, rows: bool) -> Any:
        """Pad an odd number of columns, and with ``rows`` of rows, by one of zeros."""
        zeros = (0,) * x.ndim
        more = self.count - x.shape[-1]
        if not more:
            return x
        high = (*zeros[:-2], more if rows else 0, more)
        return pad(x, number_like(x, 0), low=zeros, high=high, interior=zeros)

    def columns(self, x: Any) -> tuple[Any, Any]:
        """Return the paired columns as two blocks."""
        return mx.column_block(x, 0, self.half), mx.column_block(x, self.half, self.count)

    def turn_columns(self, x: Any, c: Any, s: Any) -> Any:
        """Return x · J in the order of the next round; J has diagonal blocks c, s, −s̄ and c."""
        first, second = self.columns(x)
        parts = (
            mx.scale_columns(first, c) - mx.scale_columns(second, e.conjugate(s)),
            mx.scale_columns(first, s) + mx.scale_columns(second, c),
        )
        return concat(*parts, axis=x.ndim - 1)

    def next_columns(self, x: Any) -> Any:
        """Return the columns in the order of the next round."""
        return gather(x, self.order, axis=x.ndim - 1)


def _rotation(alpha: Any, beta: Any, g: Any) -> tuple[Any, Any, Any]:
    """Return c, s and t·|g| of the rotation that makes [[α, g], [ḡ, β]] diagonal.

    Golub and Van Loan, 8.5.2, with the phase of g: the eigenvalues are α − t·|g| and β + t·|g|.
    """
    size = _felt(g)
    ratio = mx.quotient(beta - alpha, size * 2)
    root = e.abs(ratio) + e.sqrt(ratio * ratio + 1)
    t = e.where(ratio >= 0, mx.ones(ratio), mx.filled(ratio, -1)) / root
    t = mx.masked(size > 0, t)
    c = 1 / e.sqrt(t * t + 1)
    return c, mx.as_type(t * c, g) * e.sign(g), t * size


def _felt(g: Any) -> Any:
    """Return |g|, and 0 where it is too small to change a matrix with elements near 1."""
    size, limits = e.abs(g), np.finfo(g.dtype.numpy)
    return mx.masked(size > mx.filled(size, float(limits.tiny / limits.eps)), size)


def eigh(x: Any) -> tuple[Any, Any]:
    """Return eigenvalues, ascending, and eigenvectors by Jacobi rotations of disjoint pairs."""
    n = x.shape[-1]
    if not n:
        return mx.real_part(mx.diagonal(x)), x + mx.zeros(x)
    scale = mx.magnitude(mx.lower(x))
    below = mx.lower(x, strict=True)
    middle = mx.as_type(mx.real_part(mx.diagonal(x)), x)
    whole = below + mx.adjoint(below) + mx.diagonal_matrix(middle)
    whole = whole / mx.as_type(mx.broad_number(scale, x), x)
    pairs = _Pairs(x, n)
    whole = pairs.padded(whole, rows=True)
    row, column = mx.row_and_column(whole)
    on_diagonal = row == column
    met = (row - column == pairs.half) | (column - row == pairs.half)
    limit = mx.matrix_sums(mx.square_size(whole)) * mx.epsilon(x) ** 2

    def turn(_: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        a, vectors = state
        values = mx.real_part(mx.diagonal(a))
        alpha = mx.elements(values, 0, pairs.half)
        beta = mx.elements(values, pairs.half, pairs.count)
        c, s, change = _rotation(alpha, beta, mx.diagonal(a, pairs.half))
        a = pairs.turn_columns(a, c, s)
        a = mx.adjoint(pairs.turn_columns(mx.adjoint(a), c, s))
        # What the rotation was made for is set, not computed, so that it converges below rounding.
        values = concat(alpha - change, beta + change, axis=values.ndim - 1)
        a = e.where(on_diagonal, mx.as_type(mx.broad_column(values, a), a), mx.masked(~met, a))
        a = gather(pairs.next_columns(a), pairs.order, axis=a.ndim - 2)
        return a, pairs.next_columns(pairs.turn_columns(vectors, c, s))

    def sweep(state: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        a, vectors, _, count = state
        a, vectors = repeat(pairs.rounds, turn, (a, vectors))
        return a, vectors, mx.matrix_sums(mx.square_size(mx.masked(~on_diagonal, a))), count + 1

    off = mx.matrix_sums(mx.square_size(mx.masked(~on_diagonal, whole)))
    a, vectors, _, _ = _until(
        lambda state: _some(state[2] > limit), sweep, (whole, mx.identity(whole), off)
    )
    values = mx.elements(mx.real_part(mx.diagonal(a)), 0, n)
    vectors = mx.block(vectors, (0, n), (0, n))
    values, order = sort(values, axis=values.ndim - 1, descending=False)
    # 0, and NaN where x is not finite: the loop has not begun then.
    spoilt = limit - limit
    values = values + mx.broad_element(spoilt, values)
    vectors = vectors + mx.as_type(mx.broad_number(spoilt, vectors), vectors)
    vectors = take_along(vectors, mx.broad_row(order, vectors), axis=vectors.ndim - 1)
    return values * mx.broad_element(scale, values), vectors


def svd(x: Any, *, full_matrices: bool) -> tuple[Any, Any, Any]:
    """Return U, s, Vᴴ of tall matrices, by one-sided Jacobi rotations of R in x = Q R.

    Source: Hestenes, "Inversion of matrices by biorthogonalization and related results" (1958).
    """
    m, n = x.shape[-2:]
    if not n:
        u = mx.square_identity(x, m)
        empty = mx.real_part(mx.diagonal(x))
        return u if full_matrices else mx.column_block(u, 0, 0), empty, mx.square_identity(x, 0)
    scale = mx.magnitude(x)
    q, triangle = qr(
        x / mx.as_type(mx.broad_number(scale, x), x),
        mode="complete" if full_matrices else "reduced",
    )
    pairs = _Pairs(x, n)
    limit = mx.epsilon(x) * n

    def turn(_: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        w, v, worst = state
        first, second = pairs.columns(w)
        alpha, beta = (mx.column_sums(mx.square_size(t)) for t in (first, second))
        g = mx.column_sums(e.conjugate(first) * second)
        angle = mx.quotient(_felt(g), e.sqrt(alpha) * e.sqrt(beta))
        worst = e.maximum(worst, r.max(angle, axes=(angle.ndim - 1,)))
        c, s, _change = _rotation(alpha, beta, g)
        return (
            pairs.next_columns(pairs.turn_columns(w, c, s)),
            pairs.next_columns(pairs.turn_columns(v, c, s)),
            worst,
        )

    def sweep(state: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
        w, v, worst, count = state
        w, v, worst = repeat(pairs.rounds, turn, (w, v, mx.zeros(worst)))
        return w, v, worst, count + 1

    start = pairs.padded(mx.row_block(triangle, 0, n), rows=False)
    w, v, _, _ = _until(
        lambda state: _some(state[2] > limit),
        sweep,
        (start, mx.square_identity(x, pairs.count), mx.ones(scale)),
    )
    w, v = mx.column_block(w, 0, n), mx.block(v, (0, n), (0, n))
    sizes = _lengths(w)
    sizes, order = sort(sizes, axis=sizes.ndim - 1, descending=True)
    w, v = (take_along(t, mx.broad_row(order, t), axis=t.ndim - 1) for t in (w, v))
    # The columns of w are orthogonal; where they vanish, Q completes them to a basis.
    basis, lengths = qr(w, mode="reduced")
    turns = mx.diagonal(lengths)
    phase = e.where(turns == 0, mx.ones(turns), e.sign(turns))
    basis = mx.scale_columns(basis, phase)
    u = mx.product(mx.column_block(q, 0, n), basis)
    if full_matrices:
        u = concat(u, mx.column_block(q, n, m), axis=u.ndim - 1)
    return u, sizes * mx.broad_element(scale, sizes), mx.adjoint(v)


def _lengths(x: Any) -> Any:
    """Return the Euclidean norm of each column; scaling keeps squares in the dtype's range."""
    largest = mx.magnitude(mx.transposed(x), 1)
    scaled = x / mx.as_type(mx.broad_row(largest, x), x)
    return e.sqrt(mx.column_sums(mx.square_size(scaled))) * largest


def _some(condition: Any) -> Any:
    return r.any_(condition, axes=tuple(range(condition.ndim)))


def _until(unfinished: Any, sweep: Any, state: Sequence[Any]) -> Any:
    """Repeat sweeps while a matrix is unfinished, up to a limit."""
    from calor.transforms.control import while_loop

    return while_loop(
        lambda s: unfinished(s) & (s[-1] < _SWEEPS), sweep, (*state, mx.integer(0, state[0]))
    )
