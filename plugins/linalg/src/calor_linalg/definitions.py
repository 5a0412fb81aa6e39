"""Decompositions of Cholesky, LU, QR and triangular systems into ops, column by column.

Requirements: any device can run the decomposition of a kept composite, on any batch. The size of
the graph does not depend on the size of the matrices. Signs and phases are LAPACK's, so a device
that decomposes agrees with one that does not. Data raise no error: a matrix without a result gives
NaN or infinities. The rows own their gradients, so no gradient flows through these loops.
"""

from __future__ import annotations

from typing import Any

from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops.indexing import take_along
from calor.ops.movement import expand, flip
from calor_linalg import matrices as mx


def repeat(count: int, step: Any, state: Any) -> Any:
    """Return the state after ``state = step(i, state)`` for i below ``count``."""
    from calor.transforms.control import fori_loop

    return fori_loop(0, count, step, state)


def cholesky(x: Any) -> Any:
    """Return L, column by column; only the lower triangle of x is read."""
    row, column = mx.row_and_column(x)

    def step(j: Any, low: Any) -> Any:
        rest = mx.column_at(x, j) - mx.times_vector(low, e.conjugate(mx.row_at(low, j)))
        pivot = e.sqrt(mx.real_part(mx.element_at(rest, j)))
        pivot = mx.as_type(pivot, x)
        values = mx.broad_column(rest / mx.broad_element(pivot, rest), x)
        values = e.where(row == column, mx.broad_number(pivot, x), values)
        return e.where((column == j) & (row >= j), values, low)

    return repeat(x.shape[-1], step, mx.zeros(x))


def triangular_solve(a: Any, b: Any, *, lower: bool, transpose: bool, unit_diagonal: bool) -> Any:
    """Return the solution of a triangular system, row by row."""
    if transpose:
        a, lower = mx.transposed(a), not lower
    ends = (a.ndim - 2, a.ndim - 1)
    if not lower:
        a, b = flip(a, axes=ends), flip(b, axes=ends[:1])
    below, pivots = mx.lower(a, strict=True), mx.diagonal(a)
    row, _ = mx.row_and_column(b)

    def step(i: Any, x: Any) -> Any:
        rest = mx.row_at(b, i) - mx.vector_times(mx.row_at(below, i), x)
        if not unit_diagonal:
            rest = rest / mx.broad_element(mx.element_at(pivots, i), rest)
        return e.where(row == i, mx.broad_row(rest, x), x)

    x = repeat(a.shape[-1], step, mx.zeros(b))
    return x if lower else flip(x, axes=ends[:1])


def lu(x: Any) -> tuple[Any, Any]:
    """Return L and U packed in one matrix, and the row order, by partial pivoting."""
    m, n = x.shape[-2:]
    row, column = mx.row_and_column(x)
    places = mx.places(r.sum(x, axes=(x.ndim - 1,), dtype=x.dtype))
    if not m or not n:
        return x, places

    def step(k: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        packed, order = state
        sizes = e.abs(mx.column_at(packed, k))
        best = r.argmax(e.where(places < k, mx.filled(sizes, -1), sizes), axis=sizes.ndim - 1)
        best = mx.broad_element(best, places)
        here = expand(k, shape=places.shape)
        swap = e.where(places == here, best, e.where(places == best, here, places))
        packed = take_along(packed, mx.broad_column(swap, packed), axis=packed.ndim - 2)
        order = take_along(order, swap, axis=order.ndim - 1)
        below = mx.masked(places > k, mx.column_at(packed, k))
        pivot = mx.broad_element(mx.element_at(mx.column_at(packed, k), k), below)
        factors = e.where(pivot == 0, below, mx.quotient(below, pivot))
        factors = mx.broad_column(factors, packed)
        right = mx.masked(column > k, mx.broad_row(mx.row_at(packed, k), packed))
        packed = e.where((column == k) & (row > k), factors, packed - factors * right)
        return packed, order

    packed, order = repeat(min(m, n), step, (x, places))
    return packed, order


def qr(x: Any, *, mode: str) -> tuple[Any, Any]:
    """Return Q and R by Householder reflections (Golub and Van Loan, 5.2), with LAPACK's signs."""
    m, n = x.shape[-2:]
    k = min(m, n)
    width = m if mode == "complete" else k
    start = mx.column_block(mx.square_identity(x, m), 0, width)
    if not k:
        return start, mx.row_block(x, 0, width)
    packed, taus = reflections(x)
    return reflected(packed, taus, start), mx.row_block(mx.upper(packed), 0, width)


def reflections(x: Any) -> tuple[Any, Any]:
    """Return R with the vectors of the reflections below its diagonal, and τ, as LAPACK's geqrf.

    There is a τ for every row of x; those after the last column are 0.
    """
    row, column = mx.row_and_column(x)
    first = mx.column_at(x, mx.integer(0, x))
    places = mx.places(first)

    def reflect(j: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        packed, taus = state
        whole = mx.column_at(packed, j)
        vector, tau, beta = reflector(whole, j, places)
        tau_here = e.where(places == j, mx.broad_element(tau, whole), taus)
        turned = e.conjugate(mx.broad_element(tau, whole)) * vector
        along = mx.vector_times(e.conjugate(vector), packed)
        after = packed - mx.broad_column(turned, packed) * mx.broad_row(along, packed)
        here = e.where(
            row == j,
            mx.broad_number(beta, packed),
            e.where(row > j, mx.broad_column(vector, packed), packed),
        )
        packed = e.where(column == j, here, e.where(column > j, after, packed))
        return packed, tau_here

    packed, taus = repeat(min(x.shape[-2:]), reflect, (x, mx.zeros(first)))
    return packed, taus


def reflected(packed: Any, taus: Any, q: Any, backward: bool = False) -> Any:
    """Return H₁ H₂ … q, or its adjoint … H₂ᴴ H₁ᴴ q with ``backward``."""
    places = mx.places(mx.column_at(packed, mx.integer(0, packed)))
    k = taus.shape[-1] if taus.shape[-1] < packed.shape[-1] else packed.shape[-1]

    def apply(i: Any, q: Any) -> Any:
        j = i if backward else (k - 1) - i
        vector = mx.masked(places > j, mx.column_at(packed, j))
        vector = e.where(places == j, mx.ones(vector), vector)
        tau = mx.broad_element(mx.element_at(taus, j), vector)
        turned = (e.conjugate(tau) if backward else tau) * vector
        along = mx.vector_times(e.conjugate(vector), q)
        return q - mx.broad_column(turned, q) * mx.broad_row(along, q)

    return repeat(k, apply, q)


def reflector(x: Any, j: Any, places: Any) -> tuple[Any, Any, Any]:
    """Return v, τ, β with (I − τ v vᴴ)ᴴ x = β at index j and 0 below, as LAPACK's larfg.

    Elements of x above index j are ignored; v is 1 at index j and 0 above.
    """
    x = mx.masked(places >= j, x)
    # Scaled first: squares of small or large elements leave the range of the dtype.
    scale = mx.magnitude(x, 1)
    x = x / mx.as_type(mx.broad_element(scale, x), x)
    alpha = mx.element_at(x, j)
    tail = mx.masked(places > j, x)
    squares = mx.square_size(tail)
    rest = r.sum(squares, axes=(x.ndim - 1,), dtype=squares.dtype)
    head = mx.real_part(alpha)
    size = e.sqrt(mx.square_size(alpha) + rest)
    beta = e.where(head >= 0, -size, size)
    done = rest == 0
    if x.dtype.is_complex:
        done = done & (e.imag(alpha) == 0)
    beta = mx.as_type(e.where(done, head, beta), x)
    tau = mx.quotient(beta - alpha, beta)
    vector = mx.quotient(tail, mx.broad_element(alpha - beta, tail))
    return e.where(places == j, mx.ones(x), vector), tau, beta * mx.as_type(scale, x)
