"""Every row, from the tables by family."""

from __future__ import annotations

# These register rows of the table that are imported when they are used.
import calor.ops.attention  # noqa: F401
import calor_distributed.rows  # noqa: F401
import calor_linalg.eigen  # noqa: F401

from ..language import Case
from . import (
    attention,
    casts,
    collectives,
    composites,
    contraction,
    control,
    convolution,
    declared,
    elementwise,
    fourier_functions,
    indexing,
    linalg,
    linalg_functions,
    movement,
    products,
    reductions,
    scans,
    sorting,
    sources,
    spectral,
    windows,
)

CASES: list[Case] = [
    *elementwise.CASES,
    *declared.CASES,
    *casts.CASES,
    *movement.CASES,
    *reductions.CASES,
    *scans.CASES,
    *indexing.CASES,
    *sorting.CASES,
    *contraction.CASES,
    *convolution.CASES,
    *windows.CASES,
    *spectral.CASES,
    *sources.CASES,
    *composites.CASES,
    *attention.CASES,
    *linalg.CASES,
    *linalg_functions.CASES,
    *products.CASES,
    *fourier_functions.CASES,
    *control.CASES,
    *collectives.CASES,
]
