"""Cholesky factors as launches: one for each panel of columns."""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel.contract.launching import Bound, Effort, operand
from calor_kernel.contract.work import Output, Refusal, Request, Work
from calor_kernel.library.linalg.cholesky import cholesky_panel
from calor_kernel.library.linalg.matrices import Matrices
from calor_kernel.library.linalg.unit_cholesky import add_factor
from calor_kernel.library.steps import Steps

# Columns of a panel, and rows of a cube; a unit has four elements of each block.
_BLOCKS = (8, 16, 32)


def lower_cholesky(request: Request) -> Sequence[Work] | Refusal:
    """Factorize panel by panel."""
    (x,) = request.inputs
    over = Matrices.of(x, request.info)
    n = over.rows
    if not x.size:
        return [Work(())]
    steps = Steps()
    if over.info.max_units == 1:
        refused = over.refusal_of_units()
        if refused is not None:
            return refused
        add_factor(request, over, steps)
        return [steps.work()]
    block = next((b for b in _BLOCKS if b >= n), _BLOCKS[-1])
    refused = over.refusal(block * block // 4)
    if refused is not None:
        return refused
    for first in range(0, n, block):
        tiles = -(-(n - first) // block)
        items = over.batch * (n - first) * block
        steps.add(
            cholesky_panel,
            over.grid(over.batch * tiles, block * block // 4),
            Effort("cholesky panel", items * (2 * first + block), 2 * items * x.dtype.itemsize),
            x=operand(0, x),
            factor=Bound(Output(), x.dtype),
            n=n,
            first=first,
            tiles=tiles,
            block=block,
            tall=tiles > 1,
        )
    return [steps.work()]
