"""Parameter lists and print formats of the C family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from calor.dtypes import DType, float32, float64
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import Dialect
from calor_kernel.printers.expressions import Expression

_LINE: Final = 70


def listed(parts: Sequence[str], indent: str = "    ") -> str:
    """Return parameters on one line, or on separate lines if that is too long."""
    line = ", ".join(parts)
    if len(line) <= _LINE:
        return line
    return "".join(f"\n{indent}{part}," for part in parts).removesuffix(",")


def printf(
    dialect: Dialect,
    text: str,
    values: Sequence[Sequence[tuple[Expression, DType]]],
    *,
    long: str = "ll",
    signed: str = "long long",
    unsigned: str = "unsigned long long",
) -> str:
    """Return a call of printf; each ``{}`` of the text is a value, or the lanes of one.

    ``long``, ``signed`` and ``unsigned`` are the length modifier and the names of the language's
    widest integers.
    """
    forms, arguments = [], []
    for lanes in values:
        found = []
        for value, dtype in lanes:
            if dtype.kind == "float":
                wide = float64 if dialect.computes(float64) else float32
                found.append("%.9g")
                arguments.append(dialect.cast(wide, value).text)
            else:
                unsign = dtype.kind == "uint"
                found.append(f"%{long}{'u' if unsign else 'd'}")
                arguments.append(f"({unsigned if unsign else signed}){value.at(ex.UNARY)}")
        forms.append(found[0] if len(found) == 1 else f"[{' '.join(found)}]")
    said = text.replace("%", "%%").format(*forms)
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        said = said.replace(character, escaped)
    return f"printf({', '.join([f'{chr(34)}{said}{chr(92)}n{chr(34)}', *arguments])});"
