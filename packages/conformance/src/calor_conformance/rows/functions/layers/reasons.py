"""Public functions of packages without a row of drawn calls, and why."""

from __future__ import annotations

from typing import Final

REASONS: Final[dict[str, str]] = {
    "calor_linalg.LinAlgError": "an error",
    "calor_linalg.lu_factor": "has a row with lu_solve",
    "calor_linalg.ldl_factor": "has a row with ldl_solve",
    "calor_linalg.matmul": "calor's, which has a row",
    "calor_linalg.tensordot": "calor's, which has a row",
    "calor_numerics.random": "a module; its numbers are asked for by checks of distributions",
    "calor_numerics.signal": "a module with rows of its own",
    "calor_numerics.signal.windows": "a module with rows of its own",
}
