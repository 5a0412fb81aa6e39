"""Factorizations of matrices and triangular systems.

Requirements: few programs factorize, so what does is imported with the first question.
"""

from __future__ import annotations

from calor_kernel.contract import work

work.lowering("cholesky")(
    work.deferred("calor_kernel.library.linalg.cholesky_launch", "lower_cholesky")
)
work.lowering("triangular_solve")(
    work.deferred("calor_kernel.library.linalg.triangular_launch", "lower_triangular_solve")
)
work.lowering("lu")(work.deferred("calor_kernel.library.linalg.lu_launch", "lower_lu"))
work.lowering("eigh")(work.deferred("calor_kernel.library.linalg.jacobi_launch", "lower_eigh"))
work.lowering("qr")(work.deferred("calor_kernel.library.linalg.reflections_launch", "lower_qr"))
