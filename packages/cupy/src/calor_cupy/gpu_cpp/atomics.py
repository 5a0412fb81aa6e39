"""Atomics in C++ for GPUs.

Requirements: native atomic functions are used if available. Other float updates are
compare-and-swap loops on the bits, so a NaN ends the loop too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calor.dtypes import int64, uint64
from calor_kernel.ir.nodes import Operation
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import Dialect, Helpers
from calor_kernel.printers.elementwise import Scalars
from calor_kernel.printers.expressions import Expression

_SIGNED = ("min", "max")


def atomic(
    dialect: Dialect,
    names: Mapping[str, str],
    operation: Operation,
    place: Expression,
    values: Sequence[Expression],
    helpers: Helpers,
) -> Expression:
    """Return an atomic update of an element; its value is the old element.

    ``names``: the language's atomic functions, by kind.
    """
    memory, dtype = operation.memory, operation.result.type.dtype
    assert memory is not None
    if memory.space == "private" or dtype.itemsize < 4:
        dialect.refuse(f"atomics on {dtype} in {memory.space} memory")
    kind = operation.attributes["kind"]
    name = names[kind]
    if dtype.kind != "float" or kind == "add":
        if dtype is int64 and kind not in _SIGNED:
            pointer = ex.prefix("(uint64 *)", place)
            made = ex.call(name, pointer, *(dialect.cast(uint64, v) for v in values))
            return dialect.cast(int64, made)
        exact = [dialect.cast(dtype, v) if v.bare and dtype.kind != "float" else v for v in values]
        return ex.call(name, place, *exact)
    return _by_bits(dialect, names, operation, place, values, helpers)


def _by_bits(
    dialect: Dialect,
    names: Mapping[str, str],
    operation: Operation,
    place: Expression,
    values: Sequence[Expression],
    helpers: Helpers,
) -> Expression:
    dtype, kind = operation.result.type.dtype, operation.attributes["kind"]
    bits = dialect.bits(dtype)
    whole, type = dialect.types[bits], dialect.types[dtype]

    def as_bits(text: str) -> str:
        return dialect.reinterpret(bits, Expression(text), dtype).text

    def as_number(text: str) -> str:
        return dialect.reinterpret(dtype, Expression(text), bits).text

    given_names = ("a", "b")[: len(values)]
    if kind in ("exchange", "compare"):
        given = ", ".join(map(as_bits, given_names))
        call = f"{names[kind]}(({whole} *)place, {given})"
        body = f"  return {as_number(call)};\n"
    else:
        like = Type(dtype)
        seen = [Expression(as_number("seen")), Expression("a")]
        scalars = Scalars(dialect, helpers)
        changed = scalars.operation(kind, like, [like, like], seen, {}).text
        exchange = names["compare"]
        body = (
            f"  {whole} seen, old = *(volatile {whole} *)place;\n"
            f"  do {{\n    seen = old;\n"
            f"    old = {exchange}(({whole} *)place, seen, {as_bits(changed)});\n"
            f"  }} while (old != seen);\n  return {as_number('old')};\n"
        )
    function = f"atomic_{kind}_{dtype.name}"
    declared = ", ".join(f"{type} {n}" for n in given_names)
    head = f"{dialect.function_prefix} {type} {function}({type} *place, {declared})"
    return ex.call(helpers.add(function, f"{head} {{\n{body}}}"), place, *values)
