"""Helper functions printed from recipes, by the printer of the kernel that uses them.

Helpers without a recipe are language-specific functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calor.dtypes import DType
from calor_kernel.ir.nodes import Kernel
from calor_kernel.printers.dialect import Dialect
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.helpers import HelperFunctions
from calor_kernel.printers.printer import Printer
from calor_wgpu.passes.recipes import block_of


class Recipes(HelperFunctions):
    """The functions that a kernel uses; ``printer`` creates a printer for a function body.

    ``wide``: whether the language has 64-bit types.
    """

    def __init__(
        self, dialect: Dialect, printer: Callable[[Kernel, Any, Any], Printer], wide: bool
    ) -> None:
        super().__init__(dialect)
        self.printer = printer
        self.wide = wide

    def name(self, helper: str, *dtypes: DType) -> str:
        """Return the name of a helper for some dtypes; a new helper is printed."""
        name = self.called(helper, dtypes)
        if name in self.texts:
            return name
        body = None if self.has(helper, dtypes) else block_of(helper, *dtypes, wide=self.wide)
        if body is None:
            return super().name(helper, *dtypes)
        printer = self.printer(Kernel(name, (), body), self.dialect, self)
        return self.add(name, _function(printer))

    def has(self, helper: str, dtypes: Sequence[DType]) -> bool:
        """Return whether the language has what a recipe computes."""
        return False

    def called(self, helper: str, dtypes: Sequence[DType]) -> str:
        """Return the function name of a helper."""
        return f"fn_{super().called(helper, dtypes)}"


def _function(printer: Printer) -> str:
    """Return the text of a function for a body with one result."""
    body = printer.kernel.body
    (result,) = body.yields
    given = [(value, printer.fresh(value.hint)) for value in body.arguments]
    printer.texts.update((value, Expression(name)) for value, name in given)
    printer.depth = 0
    printer.block(body)
    printer.line(f"return {printer.operand(result).text};")
    parameters = [(value.type.dtype, name) for value, name in given]
    name, dtype = printer.kernel.name, result.type.dtype
    return printer.dialect.function(name, dtype, parameters, printer.lines)
