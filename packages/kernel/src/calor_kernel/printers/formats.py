"""Lists of parameters and formats of prints, as every language of the C family writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calor.dtypes import float32, float64
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import Dialect
from calor_kernel.printers.expressions import Expression

_LINE: Final = 70


def listed(parts: Sequence[str], indent: str = "    ") -> str:
    """Return parameters on one line, or on lines of their own where that is long."""
    line = ", ".join(parts)
    if len(line) <= _LINE:
        return line
    return "".join(f"\n{indent}{part}," for part in parts).removesuffix(",")


def printf(
    dialect: Dialect,
    text: str,
    values: Sequence[tuple[Expression, Type]],
    *,
    long: str = "ll",
    signed: str = "long long",
    unsigned: str = "unsigned long long",
) -> str:
    """Return a call of printf with a text and the values after it.

    ``long``, ``signed`` and ``unsigned`` are the length modifier and the names of the language's
    widest integers.
    """
    said = text.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    forms, arguments = [said] if said else [], []
    for value, type in values:
        if type.dtype.kind == "float":
            wide = float64 if dialect.computes(float64) else float32
            forms.append("%g")
            arguments.append(dialect.cast(wide, value).text)
        else:
            forms.append(f"%{long}{'u' if type.dtype.kind == 'uint' else 'd'}")
            name = unsigned if type.dtype.kind == "uint" else signed
            arguments.append(f"({name}){value.at(ex.UNARY)}")
    form = " ".join(forms)
    return f"printf({', '.join([f'{chr(34)}{form}{chr(92)}n{chr(34)}', *arguments])});"
