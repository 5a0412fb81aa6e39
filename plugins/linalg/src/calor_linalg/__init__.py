"""Linear algebra: the ``linalg`` extension of the array API standard, with what PyTorch and JAX
have beside it.

Functions work on the last two axes; axes before them are a batch. Factorizations compute in
float32, float64, complex64 and complex128. Every function has gradients of any order.
"""

from calor.errors import LinearAlgebraError as LinAlgError
from calor.functions.linear_algebra import (
    matmul,
    matrix_transpose,
    outer,
    tensordot,
    vecdot,
)
from calor.keywords import explain as _explain
from calor_linalg.determinants import det, slogdet
from calor_linalg.factored import (
    cholesky_ex,
    cholesky_inverse,
    cholesky_solve,
    lu_factor,
    lu_solve,
    lu_unpack,
)
from calor_linalg.factors import (
    cholesky,
    eigh,
    eigvalsh,
    lu,
    qr,
    svd,
    svdvals,
)
from calor_linalg.general import cond, eig, eigvals, logdet, norm
from calor_linalg.indefinite import ldl_factor, ldl_solve
from calor_linalg.norms import (
    cross,
    diagonal,
    matrix_norm,
    trace,
    vector_norm,
)
from calor_linalg.powers import expm, matrix_power
from calor_linalg.reflectors import geqrf, householder_product, ormqr
from calor_linalg.solving import (
    inv,
    lstsq,
    matrix_rank,
    pinv,
    solve,
    solve_triangular,
)
from calor_linalg.tensors import multi_dot, pca_lowrank, svd_lowrank, tensorinv, tensorsolve

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cholesky_inverse",
    "cholesky_solve",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "geqrf",
    "householder_product",
    "inv",
    "ldl_factor",
    "ldl_solve",
    "logdet",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "lu_unpack",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "ormqr",
    "outer",
    "pca_lowrank",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svd_lowrank",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]

_explain(globals(), "calor_linalg.")
