"""Atomics in OpenCL C 1.2 (6.12.11), with the extensions for 64 bits.

Requirements: integers use the language's functions. Floats have only an exchange, so they are
compare-and-swap loops on the bits; comparing bits instead of numbers ends the loop for NaN too.
NVIDIA's driver adds them by assembly: 257 cubes that add to two rows took seven times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from calor_kernel.ir.nodes import Operation
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import Dialect, Helpers
from calor_kernel.printers.elementwise import Scalars
from calor_kernel.printers.expressions import Expression

_NAMES = MappingProxyType({"exchange": "xchg", "compare": "cmpxchg"})
# Floats by bytes: their type in PTX, and the constraint of an operand.
_ADDED = MappingProxyType({4: ("f32", "f"), 8: ("f64", "d")})
_SPACES = MappingProxyType({"global": "__global", "shared": "__local"})


def atomic(
    dialect: Dialect,
    operation: Operation,
    place: Expression,
    values: Sequence[Expression],
    helpers: Helpers,
    ptx: bool = False,
) -> Expression:
    """Return an atomic update of an element; its value is the old element.

    ``ptx``: whether the compiler takes PTX.
    """
    memory, dtype = operation.memory, operation.result.type.dtype
    assert memory is not None
    if memory.space not in _SPACES or dtype.itemsize < 4:
        dialect.refuse(f"atomics on {dtype} in {memory.space} memory")
    kind = operation.attributes["kind"]
    prefix = "atom" if dtype.itemsize == 8 else "atomic"
    if dtype.kind != "float":
        exact = [dialect.cast(dtype, v) if v.bare else v for v in values]
        return ex.call(f"{prefix}_{_NAMES.get(kind, kind)}", place, *exact)
    bits, space = dialect.types[dialect.bits(dtype)], _SPACES[memory.space]
    type = dialect.types[dtype]
    pointer = f"volatile {space} {bits} *"
    function = f"atomic_{kind}_{dtype.name}_{memory.space}"
    if kind in _NAMES:
        name = f"{prefix}_{_NAMES[kind]}"
        names = ("a", "b")[: len(values)]
        given = ", ".join(f"as_{bits}({n})" for n in names)
        body = f"  return as_{type}({name}(({pointer})place, {given}));\n"
    elif ptx and kind == "add" and memory.space == "global" and dtype.itemsize in _ADDED:
        names, (width, letter) = ("a",), _ADDED[dtype.itemsize]
        body = (
            f'  {type} old;\n  asm volatile("atom.global.add.{width} %0, [%1], %2;" '
            f': "={letter}"(old) : "l"(place), "{letter}"(a) : "memory");\n  return old;\n'
        )
    else:
        names = ("a",)
        scalars, like = Scalars(dialect, helpers), Type(dtype)
        seen = [Expression(f"as_{type}(seen)"), Expression("a")]
        changed = scalars.operation(kind, like, [like, like], seen, {}).text
        swap = f"{prefix}_cmpxchg(({pointer})place, seen, as_{bits}({changed}))"
        body = (
            f"  {bits} seen, old = *({pointer})place;\n"
            f"  do {{\n    seen = old;\n    old = {swap};\n  }} while (old != seen);\n"
            f"  return as_{type}(old);\n"
        )
    declared = ", ".join(f"{type} {n}" for n in names)
    head = f"{dialect.function_prefix} {type} {function}({space} {type} *place, {declared})"
    return ex.call(helpers.add(function, f"{head} {{\n{body}}}"), place, *values)
