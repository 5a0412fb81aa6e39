"""Linear systems, inverses, determinants and functions of matrices."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from calor import dtypes
from calor.dtypes import real_of
from calor.errors import DTypeError, ShapeError
from calor.functions.linear_algebra import matmul
from calor.functions.operands import as_tensor, integer, python_number, stretched, together
from calor.graph.recipes import broadcast_shapes
from calor.graph.record import number_on
from calor.ops import elementwise as e
from calor.ops import reductions as r
from calor.ops.movement import permute, reshape
from calor.specs import spec
from calor_linalg import matrices as mx
from calor_linalg import solutions as rows
from calor_linalg.factors import svd
from calor_linalg.rows import matrices, square

if TYPE_CHECKING:
    from calor.functions.operands import Operand
    from calor.tensor.tensor import Tensor


class SlogdetResult(NamedTuple):
    """The sign, or phase, of a determinant and the natural logarithm of its magnitude."""

    sign: Tensor
    logabsdet: Tensor


class LstsqResult(NamedTuple):
    """A least-squares solution, the squared residuals, and x1's rank and singular values."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def solve(x1: Operand, x2: Operand, /) -> Tensor:
    """Return X with x1 X = x2, for square matrices x1 (..., M, M).

    x2 with one axis is a vector (M,); otherwise it holds columns (..., M, K). Axes before the last
    two broadcast. Raises ShapeError where shapes do not fit, and LinAlgError, when somebody looks,
    for a singular matrix (a device that has no such error gives infinities or NaN).

    >>> import calor
    >>> a = calor.asarray([[2.0, 0.0], [0.0, 4.0]])
    >>> calor.linalg.solve(a, calor.asarray([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """
    return _system("solve", rows.solve, x1, x2)


def solve_triangular(
    x1: Operand,
    x2: Operand,
    /,
    *,
    lower: bool = False,
    transpose: bool = False,
    unit_diagonal: bool = False,
) -> Tensor:
    """Return X with T X = x2, where T is the upper triangle of x1 (..., M, M), or the lower one.

    With ``transpose`` Tᵀ X = x2 is solved; with ``unit_diagonal`` T's diagonal counts as ones. The
    other triangle is not read. x2 is that of ``solve``. A zero on the diagonal gives infinities or
    NaN.

    >>> import calor
    >>> a = calor.asarray([[2.0, 2.0], [0.0, 4.0]])
    >>> calor.linalg.solve_triangular(a, calor.asarray([4.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    options = {"lower": lower, "transpose": transpose, "unit_diagonal": unit_diagonal}
    options = {name: bool(value) for name, value in options.items()}
    return _system("solve_triangular", rows.triangular_solve, x1, x2, **options)


def _system(what: str, row: Any, x1: Any, x2: Any, **options: bool) -> Tensor:
    a, b = together([x1, x2], what)
    square(what, a._value.spec)
    _check_rows(what, a, b)
    vector = b.ndim == 1
    if vector:
        b = reshape(b, shape=(*b.shape, 1))
    made: Any
    if a.ndim == 2 and b.ndim > 2:
        made = _columns_together(row, a, b, options)
    else:
        batch = broadcast_shapes(what, (spec(a.shape[:-2], a.dtype), spec(b.shape[:-2], b.dtype)))
        made = row(
            stretched(a, (*batch, *a.shape[-2:])), stretched(b, (*batch, *b.shape[-2:])), **options
        )
    if vector:
        made = reshape(made, shape=made.shape[:-1])
    return made  # type: ignore[no-any-return]


def _check_rows(what: str, a: Tensor, b: Tensor) -> None:
    if not b.ndim or b.shape[-1 if b.ndim == 1 else -2] != a.shape[-2]:
        raise ShapeError(
            f"{what}: right sides of shape {b.shape} do not fit matrices of shape {a.shape}; they "
            f"have as many rows"
        )


def _columns_together(row: Any, a: Any, b: Any, options: dict[str, bool]) -> Any:
    """Solve one matrix for the columns of a whole batch, so that it is factorized once."""
    n, k = b.shape[-2:]
    lead = b.shape[:-2]
    turned = permute(b, axes=(b.ndim - 2, *range(b.ndim - 2), b.ndim - 1))
    solved = row(a, reshape(turned, shape=(n, prod(lead) * k)), **options)
    return permute(
        reshape(solved, shape=(n, *lead, k)), axes=(*range(1, b.ndim - 1), 0, b.ndim - 1)
    )


def inv(x: Operand, /) -> Tensor:
    """Return the inverses of square matrices (..., M, M).

    To solve a system, ``solve`` is faster and more exact. Raises LinAlgError, when somebody looks,
    for a singular matrix (a device that has no such error gives infinities or NaN).

    >>> import calor
    >>> calor.linalg.inv(calor.asarray([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return rows.inv(as_tensor(x))  # type: ignore[no-any-return]


def det(x: Operand, /) -> Tensor:
    """Return the determinants of square matrices (..., M, M); 0 for a singular one.

    >>> import calor
    >>> calor.linalg.det(calor.asarray([[2.0, 1.0], [0.0, 3.0]])).item()
    6.0
    """
    return rows.det(as_tensor(x))  # type: ignore[no-any-return]


def slogdet(x: Operand, /) -> SlogdetResult:
    """Return the sign of determinants and the logarithm of their magnitude, which may be huge.

    x is (..., M, M). The sign of complex matrices is a phase. A singular matrix gives 0 and −inf.

    >>> import calor
    >>> sign, size = calor.linalg.slogdet(calor.asarray([[0.0, 1.0], [1.0, 0.0]]))
    >>> sign.item(), size.item()
    (-1.0, 0.0)
    """
    return SlogdetResult(*rows.slogdet(as_tensor(x)))


def _tolerance(what: str, rtol: Any, x: Tensor) -> Any:
    """Return rtol as one number for each matrix; max(M, N) times the dtype's epsilon by default."""
    matrices(what, x._value.spec)
    dtype, batch = real_of(x.dtype), x.shape[:-2]
    number = max(x.shape[-2:]) * mx.epsilon(x) if rtol is None else python_number(rtol)
    if isinstance(number, bool | int | float):
        given: Any = number_on(float(number), dtype, x.device)
    else:
        given = as_tensor(rtol, x)
        if given.dtype.kind == "complex":
            raise DTypeError(f"{what}: rtol is complex; a tolerance is a real number")
    if given.dtype is not dtype:
        given = e.cast(given, dtype=dtype)
    return stretched(given, batch)


def pinv(x: Operand, /, *, rtol: float | Operand | None = None) -> Tensor:
    """Return the pseudo-inverses (..., N, M) of matrices (..., M, N) by singular values.

    Singular values up to ``rtol`` times the largest count as 0; it is a number or one for each
    matrix, and max(M, N) times the dtype's epsilon by default.

    >>> import calor
    >>> calor.linalg.pinv(calor.asarray([[2.0], [0.0]])).tolist()
    [[0.5, 0.0]]
    """
    x = as_tensor(x)
    return rows.pinv(x, _tolerance("pinv", rtol, x))  # type: ignore[no-any-return]


def matrix_rank(x: Operand, /, *, rtol: float | Operand | None = None) -> Tensor:
    """Return how many singular values of x (..., M, N) exceed ``rtol`` times the largest; int64.

    ``rtol`` is that of ``pinv``.

    >>> import calor
    >>> calor.linalg.matrix_rank(calor.ones((3, 3))).item()
    1
    """
    x = as_tensor(x)
    tolerance = _tolerance("matrix_rank", rtol, x)
    return _rank(svd(x, full_matrices=False).S, tolerance)


def _rank(s: Any, tolerance: Any) -> Tensor:
    axes = (s.ndim - 1,)
    if not s.shape[-1]:
        return r.sum(e.cast(s, dtype=dtypes.int64), axes=axes, dtype=dtypes.int64)  # type: ignore[no-any-return]
    kept = s > mx.broad_element(r.max(s, axes=axes) * tolerance, s)
    return r.sum(kept, axes=axes, dtype=dtypes.int64)  # type: ignore[no-any-return]


def lstsq(x1: Operand, x2: Operand, /, *, rtol: float | Operand | None = None) -> LstsqResult:
    """Return the shortest X (..., N, K) that minimizes |x1 X − x2|², x1 (..., M, N).

    x2 is a vector (M,) or holds columns (..., M, K). ``rtol`` is that of ``pinv``. The residuals
    are the sums of squares (..., K) that are left.

    >>> import calor
    >>> a = calor.asarray([[1.0], [1.0]])
    >>> found = calor.linalg.lstsq(a, calor.asarray([1.0, 3.0]))
    >>> found.solution.round().tolist(), found.residuals.round().item()
    ([2.0], 2.0)
    """
    a, b = together([x1, x2], "lstsq")
    tolerance = _tolerance("lstsq", rtol, a)
    _check_rows("lstsq", a, b)
    s = svd(a, full_matrices=False).S
    solution = matmul(rows.pinv(a, tolerance), b)
    squares: Any = mx.square_size(matmul(a, solution) - b)
    axis = squares.ndim - (1 if b.ndim == 1 else 2)
    residuals = r.sum(squares, axes=(axis,), dtype=squares.dtype)
    return LstsqResult(solution, residuals, _rank(s, tolerance), s)


def matrix_power(x: Operand, n: int, /) -> Tensor:
    """Return the n-th power of square matrices (..., M, M); of their inverse for a negative n.

    >>> import calor
    >>> calor.linalg.matrix_power(calor.asarray([[1.0, 1.0], [0.0, 1.0]]), 5).tolist()
    [[1.0, 5.0], [0.0, 1.0]]
    """
    base = as_tensor(x)
    count = integer(n, "matrix_power: n")
    if base.ndim < 2 or base.shape[-1] != base.shape[-2]:
        raise ShapeError(f"matrix_power: shape {base.shape} does not hold square matrices")
    if not count:
        return mx.identity(base)  # type: ignore[no-any-return]
    if count < 0:
        base, count = inv(base), -count
    power = None
    while True:
        if count % 2:
            power = base if power is None else matmul(power, base)
        count //= 2
        if not count:
            assert power is not None
            return power
        base = matmul(base, base)


def expm(x: Operand, /) -> Tensor:
    """Return the matrix exponential Σ xᵏ / k! of square matrices (..., M, M).

    By scaling and squaring with a Padé approximant (Higham 2005).

    >>> import calor
    >>> calor.linalg.expm(calor.asarray([[0.0, 1.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return rows.expm(as_tensor(x))  # type: ignore[no-any-return]
