"""Products, linear algebra and Fourier transforms of OpInfo."""

from __future__ import annotations

from typing import Any

from .names import Table, c, fft, linalg, scaled


def _plus(input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    made = scaled(product, alpha)
    return made if beta == 0 else scaled(input, beta) + made


def _added(product: Any) -> Any:
    return lambda input, a, b, *, beta=1, alpha=1: _plus(input, product(a, b), beta, alpha)


def _fft(name: str) -> Any:
    return lambda input, n=None, dim=-1, norm=None: getattr(fft, name)(
        input, n=n, axis=dim, norm=norm or "backward"
    )


def _fftn(name: str, last: bool = False) -> Any:
    def call(input: Any, s: Any = None, dim: Any = (-2, -1) if last else None,
             norm: Any = None) -> Any:  # fmt: skip
        axes = (dim,) if isinstance(dim, int) else None if dim is None else tuple(dim)
        return getattr(fft, name)(
            input, s=None if s is None else (s,) if isinstance(s, int) else tuple(s), axes=axes,
            norm=norm or "backward",
        )  # fmt: skip

    return call


def _hermitian(inverse: bool, last: bool = False) -> Any:
    """The transform of a Hermitian signal along the last axis, plain ones along the others."""

    def call(input: Any, s: Any = None, dim: Any = (-2, -1) if last else None,
             norm: Any = None) -> Any:  # fmt: skip
        sizes = None if s is None else (s,) if isinstance(s, int) else tuple(s)
        axes = (dim,) if isinstance(dim, int) else dim
        if axes is None:
            axes = tuple(range(input.ndim))[-len(sizes) :] if sizes else tuple(range(input.ndim))
        sizes = (None,) * len(axes) if sizes is None else sizes
        kind = norm or "backward"
        end = {"n": sizes[-1], "axis": axes[-1], "norm": kind}
        made = fft.ihfft(input, **end) if inverse else input
        for axis, n in zip(axes[:-1], sizes[:-1], strict=True):
            made = (fft.ifft if inverse else fft.fft)(made, n=n, axis=axis, norm=kind)
        return made if inverse else fft.hfft(made, **end)

    return call


def _shift(name: str) -> Any:
    return lambda input, dim=None: getattr(fft, name)(
        input, axes=tuple(dim) if isinstance(dim, list) else dim
    )


def _solve(A: Any, B: Any, *, left: bool = True) -> Any:
    if left:
        vectors = B.ndim == A.ndim - 1 and A.ndim > 2 and B.shape == A.shape[:-1]
        return linalg.solve(A, B[..., None])[..., 0] if vectors else linalg.solve(A, B)
    return c.matrix_transpose(linalg.solve(c.matrix_transpose(A), c.matrix_transpose(B)))


def _triangular(A: Any, B: Any, *, upper: bool, left: bool = True,
                unitriangular: bool = False) -> Any:  # fmt: skip
    if left:
        return linalg.solve_triangular(A, B, lower=not upper, unit_diagonal=unitriangular)
    turned = linalg.solve_triangular(
        c.matrix_transpose(A), c.matrix_transpose(B), lower=upper, unit_diagonal=unitriangular
    )
    return c.matrix_transpose(turned)


def _lu(A: Any, *, pivot: bool = True) -> Any:
    return tuple(linalg.lu(A))


def _cross(input: Any, other: Any, dim: Any = -1) -> Any:
    if dim is None:
        dim = next(a for a, n in enumerate(input.shape) if n == 3)
    return linalg.cross(input, other, axis=dim)


def _tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    return c.tensordot(a, b, axes=dims)


def _code(A: Any) -> Any:
    return c.zeros(A.shape[:-2], dtype=c.int32)


TABLE: Table = {
    "addmm": _added(c_matmul := lambda a, b: c.matmul(a, b)),
    "addmm/decomposed": _added(c_matmul), "addmv": _added(c_matmul),
    "baddbmm": _added(c_matmul),
    "addbmm": _added(lambda a, b: c.sum(c.matmul(a, b), axis=0)),
    "addr": _added(lambda a, b: linalg.outer(a, b)),
    "bmm": c_matmul, "mm": c_matmul, "mv": c_matmul, "matmul": c_matmul,
    "dot": c_matmul, "vdot": lambda input, other: c.vecdot(input, other),
    "__rmatmul__": lambda input, other: other @ input,
    "linalg.vecdot": lambda x, y, *, dim=-1: c.vecdot(x, y, axis=dim),
    "linalg.multi_dot": lambda tensors: linalg.multi_dot(tensors),
    "einsum": lambda operands, equation: c.einsum(equation, *operands),
    "tensordot": _tensordot,
    "cross": _cross, "linalg.cross": lambda input, other, *, dim=-1: _cross(input, other, dim),
    "cdist": lambda x1, x2, p=2.0, compute_mode=None: c.cdist(x1, x2, p=p),
    "cholesky": lambda input, upper=False: linalg.cholesky(input, upper=upper),
    "linalg.cholesky": lambda A, *, upper=False: linalg.cholesky(A, upper=upper),
    "linalg.cholesky_ex": lambda A, *, upper=False, check_errors=False: (
        linalg.cholesky(A, upper=upper), _code(A)
    ),
    "linalg.det": lambda A: linalg.det(A),
    "logdet": lambda input: linalg.logdet(input),
    "linalg.slogdet": lambda A: tuple(linalg.slogdet(A)),
    "linalg.eigh": lambda A, UPLO="L": tuple(linalg.eigh(A)),
    "linalg.eigvalsh": lambda A, UPLO="L": linalg.eigvalsh(A),
    "linalg.inv": lambda A: linalg.inv(A),
    "linalg.inv_ex": lambda A, *, check_errors=False: (linalg.inv(A), _code(A)),
    "linalg.lstsq": lambda A, B, *, driver=None: tuple(linalg.lstsq(A, B)),
    "linalg.lstsq/grad_oriented": lambda A, B, *, driver=None: tuple(linalg.lstsq(A, B))[:1],
    "linalg.lu": _lu,
    "linalg.matrix_power": lambda A, n: linalg.matrix_power(A, n),
    "linalg.matrix_rank": lambda A, tol=None, hermitian=False, *, rtol=None, atol=None:
        linalg.matrix_rank(A, rtol=rtol, atol=tol if atol is None else atol),
    "linalg.matrix_rank/hermitian": lambda A, tol=None, hermitian=False, *, rtol=None, atol=None:
        linalg.matrix_rank(A, rtol=rtol, atol=tol if atol is None else atol),
    "matrix_exp": lambda input: linalg.expm(input),
    "linalg.pinv": lambda A, rcond=None, hermitian=False, *, rtol=None, atol=None: linalg.pinv(
        A, rtol=rtol if rtol is not None else rcond
    ),
    "linalg.pinv/hermitian": lambda A, rcond=None, hermitian=False, **k: linalg.pinv(A),
    "linalg.pinv/singular": lambda a, b=None: linalg.pinv(
        a if b is None else a @ c.matrix_transpose(b)
    ),
    "pinverse": lambda input, rcond=None: linalg.pinv(input, rtol=rcond),
    "qr": lambda input, some=True: tuple(
        linalg.qr(input, mode="reduced" if some else "complete")
    ),
    "linalg.qr": lambda A, mode="reduced": tuple(linalg.qr(A, mode=mode)),
    "linalg.solve": _solve,
    "linalg.solve_ex": lambda A, B, *, left=True, check_errors=False: (
        _solve(A, B, left=left), _code(A)
    ),
    "linalg.solve_triangular": _triangular,
    "triangular_solve": lambda b, A, upper=True, transpose=False, unitriangular=False: (
        linalg.solve_triangular(
            A, b, lower=not upper, transpose=transpose, unit_diagonal=unitriangular
        ), A
    ),
    "svd": lambda input, some=True, compute_uv=True: _old_svd(input, some),
    "linalg.svd": lambda A, full_matrices=True: tuple(linalg.svd(A, full_matrices=full_matrices)),
    "linalg.svdvals": lambda A: linalg.svdvals(A),
    **{f"fft.{n}": _fft(n) for n in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{f"fft.{n}": _fftn(n) for n in ("fftn", "ifftn", "rfftn", "irfftn")},
    **{f"fft.{n}2": _fftn(f"{n}n", True)
       for n in ("fft", "ifft", "rfft", "irfft")},
    "fft.hfftn": _hermitian(False), "fft.hfft2": _hermitian(False, True),
    "fft.ihfftn": _hermitian(True), "fft.ihfft2": _hermitian(True, True),
    "fft.fftshift": _shift("fftshift"), "fft.ifftshift": _shift("ifftshift"),
}  # fmt: skip


def _old_svd(input: Any, some: bool) -> Any:
    u, s, vh = linalg.svd(input, full_matrices=not some)
    return u, s, c.conj(c.matrix_transpose(vh))
