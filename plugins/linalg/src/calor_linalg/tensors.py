"""Products of many matrices, systems of tensors, and factors of low rank."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from calor.errors import ArgumentError, ShapeError
from calor.functions.linear_algebra import matmul
from calor.functions.operands import as_tensor, together
from calor.ops import reductions as r
from calor.ops.movement import permute, reshape
from calor_linalg import matrices as mx
from calor_linalg import rules
from calor_linalg.factors import SVDResult, qr, svd
from calor_linalg.solving import inv, solve

if TYPE_CHECKING:
    from calor.random.generator import Generator
    from calor.tensor.tensor import Operand, Tensor


def multi_dot(tensors: Sequence[Operand], /) -> Tensor:
    """Return the product of two or more matrices, in the order that costs the least.

    Parameters
    ----------
    tensors : sequence of Tensor, array or number
        Matrices that fit one after the other; the first and the last may be vectors.

    Returns
    -------
    Tensor
        The product in the common dtype; without the axes that vectors lack.

    Raises
    ------
    ArgumentError
        If there are fewer than two.
    ShapeError
        If a tensor is neither a matrix nor a vector at an end, or sizes do not fit.

    References
    ----------
    T. H. Cormen et al., "Introduction to Algorithms", matrix-chain multiplication.

    Examples
    --------
    >>> import calor
    >>> a, b = calor.ones((10, 100)), calor.ones((100, 5))
    >>> calor.linalg.multi_dot([a, b, calor.ones((5, 50))])[0, 0].item()
    500.0
    """
    if len(tensors) < 2:
        raise ArgumentError(f"multi_dot: {len(tensors)} matrices; pass two or more")
    parts: list[Any] = together(tensors, "multi_dot")
    shapes = [part.shape for part in parts]
    ends = parts[0].ndim == 1, parts[-1].ndim == 1
    if ends[0]:
        parts[0] = reshape(parts[0], shape=(1, parts[0].shape[0]))
    if ends[1]:
        parts[-1] = reshape(parts[-1], shape=(parts[-1].shape[0], 1))
    for i, part in enumerate(parts):
        if part.ndim != 2 or (i and part.shape[0] != parts[i - 1].shape[1]):
            raise ShapeError(
                f"multi_dot: matrix {i} of shape {shapes[i]} does not fit; pass matrices of "
                f"matching sizes, and vectors at the ends alone"
            )
    made = _chain(parts)
    shape = tuple(n for n, vector in zip(made.shape, ends, strict=True) if not vector)
    return reshape(made, shape=shape) if True in ends else made  # type: ignore[no-any-return]


def _chain(parts: list[Any]) -> Any:
    """Return the product in the cheapest order, found by dynamic programming."""
    sizes = [parts[0].shape[0], *(p.shape[1] for p in parts)]
    n = len(parts)
    cost = {(i, i): (0, i) for i in range(n)}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j] = min(
                (cost[i, k][0] + cost[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )

    def product(i: int, j: int) -> Any:
        if i == j:
            return parts[i]
        k = cost[i, j][1]
        return matmul(product(i, k), product(k + 1, j))

    return product(0, n - 1)


def tensorinv(x: Operand, /, *, ind: int = 2) -> Tensor:
    """Return the inverse of a tensor as a map from its last axes to its first.

    Parameters
    ----------
    x : Tensor, array or number
        The product of the first `ind` sizes equals that of the others. float32, float64, complex64
        or complex128.
    ind : int, default 2
        How many axes come first.

    Returns
    -------
    Tensor
        The inverse: its first axes are the last of `x`.

    Raises
    ------
    ArgumentError
        If `ind` is not between 1 and the number of axes.
    ShapeError
        If the products of the sizes differ.
    DTypeError
        If `x` has another dtype.
    LinAlgError
        If the map is singular. It is raised when the result is computed.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.tensorinv(calor.eye(6).reshape(2, 3, 6)).shape
    (6, 2, 3)
    """
    a = as_tensor(x)
    if not 0 < ind <= a.ndim:
        raise ArgumentError(f"tensorinv: ind is {ind}; pass a number of axes from 1 to {a.ndim}")
    first, last = a.shape[:ind], a.shape[ind:]
    if prod(first) != prod(last):
        raise ShapeError(
            f"tensorinv: {prod(first)} elements of the axes {first} and {prod(last)} of {last} "
            f"differ, so the map is not square"
        )
    made: Any = inv(reshape(a, shape=(prod(first), prod(last))))
    return reshape(made, shape=(*last, *first))  # type: ignore[no-any-return]


def tensorsolve(x1: Operand, x2: Operand, /, *, axes: Sequence[int] | None = None) -> Tensor:
    """Return the tensor X with tensordot(x1, X, X.ndim) = x2.

    Parameters
    ----------
    x1 : Tensor, array or number
        Its first axes are those of `x2`, and the rest those of the solution.
    x2 : Tensor, array or number
        The right-hand side.
    axes : sequence of int, default None
        Axes of `x1` that are moved behind the others first.

    Returns
    -------
    Tensor
        The solution.

    Raises
    ------
    ShapeError
        If the map is not square, or the shapes do not fit.
    DTypeError
        If the dtypes have no common type, or linear algebra does not compute in it.
    LinAlgError
        If the map is singular. It is raised when the result is computed.

    Examples
    --------
    >>> import calor
    >>> a, b = calor.eye(6).reshape(2, 3, 6), calor.ones((2, 3))
    >>> calor.linalg.tensorsolve(a, b).shape
    (6,)
    """
    a, b = together([x1, x2], "tensorsolve")
    if axes is not None:
        moved = [i % a.ndim for i in axes]
        a = permute(a, axes=(*(i for i in range(a.ndim) if i not in moved), *moved))
    last = a.shape[b.ndim :]
    if prod(last) != b.size or prod(a.shape[: b.ndim]) != b.size:
        raise ShapeError(
            f"tensorsolve: a tensor of shape {a.shape} is no square map onto shape {b.shape}"
        )
    size = prod(b.shape)
    flat = reshape(a, shape=(size, size))
    made: Any = solve(flat, reshape(b, shape=(size,)))
    return reshape(made, shape=last)  # type: ignore[no-any-return]


def svd_lowrank(
    x: Operand,
    /,
    q: int = 6,
    *,
    niter: int = 2,
    key: Tensor | None = None,
    generator: Generator | None = None,
) -> SVDResult:
    """Return the largest singular values of matrices and their vectors, by random projections.

    Parameters
    ----------
    x : Tensor, array or number
        Matrices of shape (..., M, N) in float32, float64, complex64 or complex128.
    q : int, default 6
        How many; a little more than the rank that is looked for.
    niter : int, default 2
        Steps of subspace iteration.
    key : Tensor, optional
        A key of `calor.random`. By default the generator is used.
    generator : Generator, optional
        The stream to draw from. By default the global one.

    Returns
    -------
    SVDResult
        U of shape (..., M, q), S of shape (..., q) and Vh of shape (..., q, N).

    Raises
    ------
    ArgumentError
        If `q` is not between 0 and min(M, N).
    ShapeError
        If `x` has fewer than two axes.
    DTypeError
        If `x` has another dtype.

    References
    ----------
    N. Halko, P. G. Martinsson and J. A. Tropp, "Finding structure with randomness", SIAM Review
    53(2), 2011, algorithms 4.4 and 5.1.

    Examples
    --------
    >>> import calor
    >>> calor.linalg.svd_lowrank(calor.ones((8, 2)), q=1).S.round().tolist()
    [4.0]
    """
    from calor.random import normal

    a: Any = as_tensor(x)
    rules.matrices("svd_lowrank", a._value.spec)
    m, n = a.shape[-2:]
    if not 0 <= q <= min(m, n):
        raise ArgumentError(f"svd_lowrank: q is {q}; pass a number from 0 to {min(m, n)}")
    real = mx.real_part(a).dtype
    drawn = normal((n, q), dtype=real, key=key, generator=generator, device=a.device)
    basis = qr(matmul(a, mx.as_type(drawn, a))).Q
    for _ in range(niter):
        basis = qr(matmul(mx.adjoint(a), basis)).Q
        basis = qr(matmul(a, basis)).Q
    u, s, vh = svd(matmul(mx.adjoint(basis), a), full_matrices=False)
    return SVDResult(matmul(basis, u), s, vh)


def pca_lowrank(
    x: Operand,
    /,
    q: int | None = None,
    *,
    center: bool = True,
    niter: int = 2,
    key: Tensor | None = None,
    generator: Generator | None = None,
) -> SVDResult:
    """Return the principal components of rows of data, by random projections.

    Parameters
    ----------
    x : Tensor, array or number
        Rows of data, of shape (..., M, N), in float32, float64, complex64 or complex128.
    q : int, default None
        How many; None is min(6, M, N).
    center : bool, default True
        Subtract the mean of each column first.
    niter : int, default 2
        Steps of subspace iteration.
    key : Tensor, optional
        A key of `calor.random`. By default the generator is used.
    generator : Generator, optional
        The stream to draw from. By default the global one.

    Returns
    -------
    SVDResult
        U, S and Vh of the centred data; the rows of Vh are the components.

    Raises
    ------
    ArgumentError
        If `q` is not between 0 and min(M, N).
    ShapeError
        If `x` has fewer than two axes.
    DTypeError
        If `x` has another dtype.

    Examples
    --------
    >>> import calor
    >>> x = calor.asarray([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    >>> calor.linalg.pca_lowrank(x, q=1).Vh.abs().round(decimals=3).tolist()
    [[1.0, 0.0]]
    """
    a: Any = as_tensor(x)
    rules.matrices("pca_lowrank", a._value.spec)
    count = min(6, *a.shape[-2:]) if q is None else q
    if center and a.size:
        mean = r.sum(a, axes=(a.ndim - 2,), dtype=a.dtype) / a.shape[-2]
        a = a - mx.broad_row(mean, a)
    return svd_lowrank(a, count, niter=niter, key=key, generator=generator)
