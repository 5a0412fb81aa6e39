"""Linear algebra: the ``linalg`` extension of the array API standard, with LU, lstsq and expm.

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
from calor_linalg.determinants import det, slogdet
from calor_linalg.factors import (
    cholesky,
    eigh,
    eigvalsh,
    lu,
    qr,
    svd,
    svdvals,
)
from calor_linalg.norms import (
    cross,
    diagonal,
    matrix_norm,
    trace,
    vector_norm,
)
from calor_linalg.powers import expm, matrix_power
from calor_linalg.solving import (
    inv,
    lstsq,
    matrix_rank,
    pinv,
    solve,
    solve_triangular,
)

__all__ = [
    "LinAlgError",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "lu",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
