"""Eigenvalues and eigenvectors of general matrices: the shifted QR algorithm in complex numbers.

Requirements: any device runs it on any batch; the matrices of a batch converge each in its own
steps. A step costs a QR factorization, so a device with a routine of its own should take the row.
Golub and Van Loan, "Matrix Computations", 7.4 to 7.6.
"""

from __future__ import annotations

from typing import Any

from calor.dtypes import complex64, complex128, float32
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops.movement import concat, expand
from calor_linalg import matrices as mx
from calor_linalg.definitions import reflector, repeat
from calor_linalg.rows import qr

# Steps for each eigenvalue; two or three are usual.
_STEPS = 30


def complex_of(dtype: Any) -> Any:
    """Return the complex dtype of the same precision."""
    return dtype if dtype.is_complex else (complex64 if dtype is float32 else complex128)


def eig(x: Any) -> tuple[Any, Any]:
    """Return eigenvalues and eigenvectors of length 1, as columns, both complex."""
    n = x.shape[-1]
    x = e.cast(x, dtype=complex_of(x.dtype))
    if not x.size:
        return mx.diagonal(x), x
    scale = mx.magnitude(x)
    t, q = _schur(*_hessenberg(x / mx.as_type(mx.broad_number(scale, x), x)))
    values = mx.diagonal(t)
    vectors = mx.product(q, _triangular_vectors(t)) if n > 1 else q
    lengths = e.sqrt(mx.column_sums(mx.square_size(vectors)))
    vectors = vectors / mx.as_type(mx.broad_row(lengths, vectors), vectors)
    values = values * mx.as_type(mx.broad_element(scale, values), values)
    # Comparisons lose NaN on the way; a failed iteration has no finite values.
    whole = r.all_(e.isfinite(x), axes=(x.ndim - 2, x.ndim - 1))
    nan = mx.filled(x, float("nan"))
    values = e.where(mx.broad_element(whole, values), values, mx.diagonal(nan))
    failed = mx.broad_row(~e.isfinite(values), vectors)
    return values, e.where(failed, nan, vectors)


def _hessenberg(x: Any) -> tuple[Any, Any]:
    """Return H without elements below its subdiagonal and a unitary Q, x = Q H Qᴴ."""
    n = x.shape[-1]
    q = mx.square_identity(x, n)
    if n < 3:
        return x, q
    places = mx.places(mx.column_at(x, mx.integer(0, x)))

    def reflect(j: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        h, q = state
        vector, tau, _ = reflector(mx.column_at(h, j), j + 1, places)
        tau = mx.broad_element(tau, vector)
        turned = e.conjugate(tau) * vector
        h = h - mx.broad_column(turned, h) * mx.broad_row(
            mx.vector_times(e.conjugate(vector), h), h
        )
        back = e.conjugate(vector) * tau
        h = h - mx.broad_column(mx.times_vector(h, vector), h) * mx.broad_row(back, h)
        q = q - mx.broad_column(mx.times_vector(q, vector), q) * mx.broad_row(back, q)
        return h, q

    h, q = repeat(n - 2, reflect, (x, q))
    row, column = mx.row_and_column(h)
    return mx.masked(row <= column + 1, h), q


def _schur(h: Any, q: Any) -> tuple[Any, Any]:
    """Return the triangular T and Q of x = Q T Qᴴ from those of a Hessenberg matrix."""
    from calor.transforms.control import while_loop

    n = h.shape[-1]
    if n == 1:
        return h, q
    row, column = mx.row_and_column(h)
    below = row == column + 1
    places = mx.places(mx.diagonal(h))
    small = mx.epsilon(mx.real_part(h))

    def coupled(h: Any) -> Any:
        """Return for each row whether its element left of the diagonal still counts."""
        sizes = e.abs(h)
        beside = mx.diagonal(sizes)
        # Shifted so that element i is that left of the diagonal in row i.
        left = r.sum(mx.masked(below, sizes), axes=(h.ndim - 1,), dtype=sizes.dtype)
        around = beside + _moved(beside)
        around = e.where(around == 0, mx.ones(around), around)
        return (places > 0) & (left > around * small)

    def unfinished(state: tuple[Any, Any, Any]) -> Any:
        return r.any_(coupled(state[0]), axes=tuple(range(h.ndim - 1))) & (state[2] < _STEPS * n)

    def step(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        h, q, count = state
        keeps = coupled(h)
        h = mx.masked(~below | mx.broad_column(keeps, h), h)
        # The last block that is not triangular: rows first … last.
        number = e.where(keeps, places, mx.zeros(places))
        last = r.max(number, axes=(places.ndim - 1,))
        ends = ~keeps & (places <= mx.broad_element(last, places))
        first = r.max(e.where(ends, places, mx.zeros(places)), axes=(places.ndim - 1,))
        inside = (places >= mx.broad_element(first, places)) & (
            places <= mx.broad_element(last, places)
        )
        both = mx.broad_row(inside, h) & mx.broad_column(inside, h)
        shift = _shift(h, last, places, count)
        identity = mx.identity(h)
        moved = e.where(both, h - identity * mx.broad_number(shift, h), identity)
        turn, _ = qr(moved, mode="reduced")
        active = mx.broad_number(last > 0, h)
        turn = e.where(active, turn, identity)
        h = mx.product(mx.adjoint(turn), mx.product(h, turn))
        return mx.masked(row <= column + 1, h), mx.product(q, turn), count + 1

    h, q, _ = while_loop(unfinished, step, (h, q, mx.integer(0, h)))
    stuck = mx.broad_number(r.any_(coupled(h), axes=(h.ndim - 2,)), h)
    h = e.where(stuck, mx.filled(h, float("nan")), h)
    return mx.upper(h), q


def _moved(v: Any) -> Any:
    """Return vectors with each element one place later, and their first twice."""
    n = v.shape[-1]
    return concat(mx.elements(v, 0, 1), mx.elements(v, 0, n - 1), axis=v.ndim - 1)


def _shift(h: Any, last: Any, places: Any, count: Any) -> Any:
    """Return Wilkinson's shift: the eigenvalue of the last two rows that is nearer to the last."""
    lower = mx.broad_element(last, places)
    chosen = mx.masked(mx.broad_column(places == lower, h), h)
    before = mx.masked(mx.broad_column(places == lower - 1, h), h)
    end, start = mx.column_sums(chosen), mx.column_sums(before)

    def at(v: Any, where: Any) -> Any:
        return r.sum(mx.masked(where, v), axes=(v.ndim - 1,), dtype=v.dtype)

    d, c = at(end, places == lower), at(end, places == lower - 1)
    b, a = at(start, places == lower), at(start, places == lower - 1)
    half = (a - d) * 0.5
    root = e.sqrt(half * half + b * c)
    sums = (half + root, half - root)
    larger = e.where(e.abs(sums[0]) >= e.abs(sums[1]), sums[0], sums[1])
    shift = d - mx.quotient(b * c, larger)
    # A cycle is left by another shift now and then.
    other = d + mx.as_type(e.abs(c), d)
    stuck = e.equal(count % 11, mx.zeros(count) + 10)
    return e.where(_spread(stuck, shift), other, shift)


def _spread(t: Any, like: Any) -> Any:
    return expand(t, shape=like.shape)


def _triangular_vectors(t: Any) -> Any:
    """Return the eigenvectors of triangular matrices, row by row from the last."""
    n = t.shape[-1]
    row, column = mx.row_and_column(t)
    values = mx.diagonal(t)
    sizes = e.abs(values)
    largest = mx.broad_element(r.max(e.abs(t), axes=(t.ndim - 2, t.ndim - 1)), values)
    least = e.maximum(sizes, largest) * mx.epsilon(mx.real_part(t))
    least = e.where(least == 0, mx.ones(least), least)
    strict = mx.upper(t, strict=True)

    def solve(i: Any, v: Any) -> Any:
        k = (n - 1) - i
        rest = mx.vector_times(mx.row_at(strict, k), v)
        gap = mx.broad_element(mx.element_at(values, k), values) - values
        close = e.abs(gap) < least
        gap = e.where(close, mx.as_type(least, gap), gap)
        found = mx.broad_row(-rest / gap, v)
        return e.where((row == k) & (column > row), found, v)

    return repeat(n, solve, mx.identity(t))
