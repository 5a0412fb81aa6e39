"""The dialect of ISO C: scalars, one unit a cube, a loop over cubes around the kernel.

Requirements: any C11 compiler takes the text, with nothing but its standard headers, and gives the
same bits (with contraction off); vectors are split before, and a cube has one unit, so that
barriers vanish. The function has the form that calor's CPU kernels have::

    void name(const int64_t *slots, int64_t begin, int64_t end)

``slots`` holds 8 bytes for each parameter, a pointer or a scalar in its low bytes, and then the
number of cubes along x, y and z. It runs the cubes from ``begin`` to before ``end`` of the launch,
x fastest, one after another: atomics are plain steps here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final

from calor.dtypes import ALL, DType, bool_, float32, float64, int64
from calor_kernel.ir.nodes import Kernel, Memory, Operation
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.dialect import FUNCTIONS, Dialect, Helpers, listed, words
from calor_kernel.printers.elementwise import Scalars
from calor_kernel.printers.expressions import Expression

_HEADERS: Final = "math stdbool stdint stdio string"
_PLACES: Final = MappingProxyType(
    {
        "cube_x": "index % cubes_x",
        "cube_y": "index / cubes_x % cubes_y",
        "cube_z": "index / cubes_x / cubes_y",
        **{f"cubes_{axis}": f"cubes_{axis}" for axis in "xyz"},
    }
)
_POSITIONS: Final = MappingProxyType({"cube_position": "cube", "cube_count": "cubes"})


def _math(names: str) -> dict[str, str]:
    found = {}
    for name in names.split():
        operation, _, function = name.partition("=")
        call = "({0}, {1}, {2})" if operation == "fma" else "({0})"
        call = "({0}, {1})" if operation == "copysign" else call
        found[f"{operation} float64"] = f"{function}{call}"
        found[f"{operation} float32"] = f"{function}f{call}"
    return found


class PlainC(Dialect):
    """ISO C11, for cubes of one unit."""

    name = "C"
    inline_names = ("c",)
    printf = ("ll", "long long", "unsigned long long")
    types = MappingProxyType(
        {bool_: "bool"}
        | {d: f"{d.name}_t" for d in ALL if d.kind in ("int", "uint")}
        | {float32: "float", float64: "double"}
    )
    templates = MappingProxyType(
        _math("abs=fabs fma=fma floor=floor ceil=ceil trunc=trunc rint=rint sqrt=sqrt")
        | _math("copysign=copysign")
    )
    suffixes: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"float32": "f", "uint32": "u", "int64": "", "uint64": "u"}
    )
    reserved = (
        Dialect.reserved
        | FUNCTIONS
        | words(
            "begin cube_x cube_y cube_z cubes_x cubes_y cubes_z end index j0 j1 jn memcpy puts "
            "remove rename slots y0 y1 yn"
        )
    )

    def reinterpret(self, dtype: DType, value: Expression, source: DType) -> Expression:
        """Return a call of a function that copies the bytes."""
        return ex.call(f"{dtype.name}_bits_of_{source.name}", value)

    def position(self, name: str, axis: int, dtype: DType) -> Expression:
        """Return a cube's position, or the number of cubes; a cube has one unit."""
        if name not in _POSITIONS:
            return Expression("0", bare=True)
        made = Expression(f"{_POSITIONS[name]}_{'xyz'[axis]}")
        return made if dtype is int64 else self.cast(dtype, made)

    def fence(self, scope: str, order: str) -> str:
        """Return nothing: one thread sees its own accesses in order."""
        return ""

    def ordered(self, memory: Memory, place: Expression) -> Expression:
        """Return the element: no other unit writes it."""
        return place

    def atomic(
        self,
        operation: Operation,
        place: Expression,
        values: Sequence[Expression],
        helpers: Helpers,
    ) -> Expression:
        """Return a call of a function that updates the element and returns its old value."""
        dtype, kind = operation.result.type.dtype, operation.attributes["kind"]
        type = self.storage(dtype)
        name = f"atomic_{kind}_{dtype.name}"
        if kind == "compare":
            head, body = f"{type} a, {type} b", "if (old == a) *place = b;"
        else:
            head, body = f"{type} a", f"*place = {self._changed(kind, dtype, helpers)};"
        lines = f"  {type} old = *place;\n  {body}\n  return old;\n"
        text = f"{self.function_prefix} {type} {name}({type} *place, {head}) {{\n{lines}}}"
        return ex.call(helpers.add(name, text), place, *values)

    def _changed(self, kind: str, dtype: DType, helpers: Helpers) -> str:
        if kind == "exchange":
            return "a"
        return Scalars(self, helpers).of(kind, dtype, Expression("old"), Expression("a")).text

    def unroll(self, times: int) -> str:
        """Return the pragma for GCC and Clang; other compilers ignore it."""
        return f"#pragma GCC unroll {times}"

    def kernel(self, kernel: Kernel, names: Mapping[str, str], body: str, helpers: str) -> str:
        """Return headers, helpers, the kernel of one cube, and the loop over cubes."""
        declared, passed, lines = [], [], []
        for number, parameter in enumerate(kernel.parameters):
            name = names[parameter.name]
            dtype = parameter.declared.dtype
            type = self.storage(dtype)
            if parameter.memory is not None:
                # Read-only memory is never written, as restrict promises.
                only_read = not parameter.memory.writable
                pointer = f"const {type} *" if only_read else f"{type} *"
                value = f"({pointer})(intptr_t)slots[{number}]"
                type = f"{pointer}restrict " if only_read else pointer
            else:
                held = self.held(dtype)
                value = f"({self.types[self.bits(held)]})slots[{number}]"
                if held.kind == "float":
                    value = self.reinterpret(held, Expression(value), self.bits(held)).text
                type += " "
            declared.append(f"{type}{name}")
            passed.append(name)
            lines.append(f"{type}{name} = {value};")
        for i, axis in enumerate("xyz"):
            if re.search(rf"\bcubes_[{'xyz'[i:]}]|cube_[{'xyz'[i:]}]\b", body):
                lines.append(f"int64_t cubes_{axis} = slots[{len(kernel.parameters) + i}];")
        for name, value in _PLACES.items():
            if re.search(rf"\b{name}\b", body):
                declared.append(f"int64_t {name}")
                passed.append(value)
        name, entry = self.entry(kernel.name), "".join(f"  {line}\n" for line in lines)
        headers = "".join(f"#include <{h}.h>\n" for h in _HEADERS.split())
        reinterprets = "".join(_reinterprets(self, helpers + body + entry))
        return (
            f"{headers}\n#pragma STDC FP_CONTRACT OFF\n\n{reinterprets}{helpers}"
            f"static void {name}_cube({listed(declared)}) {{\n{body}}}\n\n"
            f"void {name}(const int64_t *slots, int64_t begin, int64_t end) {{\n{entry}"
            f"  for (int64_t index = begin; index < end; index++) {{\n"
            f"    {name}_cube({listed(passed, '      ')});\n  }}\n}}\n"
        )


def _reinterprets(dialect: PlainC, text: str) -> list[str]:
    made = []
    for to in dialect.types:
        for source in dialect.types:
            name = f"{to.name}_bits_of_{source.name}"
            if f"{name}(" in text:
                result, given = dialect.types[to], dialect.types[source]
                made.append(
                    f"static inline {result} {name}({given} x) {{\n  {result} y;\n"
                    f"  memcpy(&y, &x, sizeof y);\n  return y;\n}}\n\n"
                )
    return made
