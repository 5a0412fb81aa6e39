"""The elementwise family: all ops that work element by element, alone or in chains."""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel.contract.work import Refusal, Request, Work, lowering
from calor_kernel.library.elementwise import arithmetic, conversions, functions, ramps
from calor_kernel.library.elementwise.chains import ElementwiseFuser
from calor_kernel.library.elementwise.lower import lower_expression
from calor_kernel.library.elementwise.operations import ROWS, Expression, Step

__all__ = [
    "ROWS",
    "ElementwiseFuser",
    "Expression",
    "Step",
    "arithmetic",
    "conversions",
    "functions",
    "lower_expression",
    "ramps",
]


@lowering(*ROWS, strided=True)
def lower_elementwise(request: Request) -> Sequence[Work] | Refusal:
    """Lower one op as a single-step expression."""
    (output,) = request.outputs
    dtypes = [v.dtype for v in request.inputs]
    expression = Expression.of(request.op, dtypes, output.dtype, request.attributes)
    return lower_expression(expression, request.inputs, request.outputs, request.info)
