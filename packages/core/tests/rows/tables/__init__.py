"""Every row, from the tables by family."""

from __future__ import annotations

from ..language import Case
from . import (
    attention,
    casts,
    composites,
    contraction,
    control,
    convolution,
    elementwise,
    functions,
    indexing,
    linalg,
    movement,
    reductions,
    scans,
    sorting,
    sources,
    spectral,
    windows,
)

CASES: list[Case] = [
    *elementwise.CASES,
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
    *control.CASES,
    *functions.CASES,
]
