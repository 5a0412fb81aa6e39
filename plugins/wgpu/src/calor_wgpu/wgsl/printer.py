"""A kernel as text of WGSL: the module around a body, its arguments and its loops.

Requirements: numbers and offsets lie in one uniform struct, so that recording writes them once and
a launch only binds; every buffer is bound from the start of its piece, for indices may be negative
from an offset on; a launch of more cubes along x than a dispatch may have is folded into y.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np

from calor.dtypes import DType
from calor_kernel.ir.nodes import Block, Kernel, Operation
from calor_kernel.ir.passes import (
    atomics_of,
    count_vectors,
    eliminate_dead,
    flag_unjoined,
    hands_over,
    lower_accesses,
    optimize,
    split_vectors,
    unroll_loops,
)
from calor_kernel.ir.types import Type
from calor_kernel.printers import units
from calor_kernel.printers.c import Printer
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.recipes import Recipes
from calor_kernel.runtime.structs import COUNTS, struct_of

from . import memory
from .dialect import WGSL
from .scalars import WGSLScalars

# The cubes of a dispatch along each axis at most.
MOST_CUBES: Final = 65535
# Where loops are ended that take long, the lines of one that is repeated, and how often it is.
_SHORT: Final = 48
_TURNS: Final = 4
_HOST: Final = MappingProxyType(
    {"i32": "<i4", "u32": "<u4", "i64": "<i8", "u64": "<u8", "f32": "<f4", "f64": "<f8"}
)


def print_wgsl(kernel: Kernel, dialect: WGSL) -> str:
    """Return a kernel as a module with the entry point ``main``; CompileError where it cannot be.

    The arguments are binding 0, as :func:`arguments` lays them out, and buffers follow it.
    """
    made = optimize(kernel)
    # A driver that ends loops runs on a processor, whose compiler takes long for long texts.
    made = split_vectors(made if dialect.limited else unroll_loops(made), dialect.widths)
    made = count_vectors(lower_accesses(made), memory.width_of)
    return WGSLPrinter(eliminate_dead(made), dialect).text()


def argument_type(dialect: WGSL, dtype: DType) -> str:
    """Return the type of a number among the arguments."""
    type = dialect.types[dialect.held(dtype)]
    return "u32" if type == "bool" else type


def arguments(parameters: Any, dialect: WGSL) -> np.dtype[Any]:
    """Return the struct of a kernel's arguments."""
    return struct_of(parameters, lambda dtype: _HOST[argument_type(dialect, dtype)])


Statement = Callable[[Any, Operation, Block], None]


class WGSLPrinter(Printer):
    """Prints one kernel."""

    dialect: WGSL
    scalars: WGSLScalars
    statements: ClassVar[Mapping[str, Statement]] = MappingProxyType(
        {"load": memory.load, "store": memory.store, "atomic": memory.atomic}
    )

    def __init__(self, kernel: Kernel, dialect: WGSL, functions: Recipes | None = None) -> None:
        super().__init__(kernel, dialect)
        self.helpers = functions or Recipes(dialect, WGSLPrinter, dialect.wide and dialect.double)
        self.scalars = WGSLScalars(dialect, self.helpers)
        self.atomics = atomics_of(kernel)
        self.across = hands_over(kernel)
        self.native = memory.native_of(kernel, dialect)
        self.wide = memory.wide_of(kernel)
        flag_unjoined(kernel)

    def operation(self, operation: Operation, block: Block) -> None:
        """Print one operation, as this language does what it does otherwise."""
        own = self.statements.get(operation.name)
        if operation.name == "while":
            self.repeat(operation, block)
        elif own is not None:
            own(self, operation, block)
        elif operation.name.startswith("plane_") and operation.operands:
            self.together(operation, block)
        elif operation.name == "barrier" and operation.attributes.get("scope", "cube") == "cube":
            self.barrier(operation)
        else:
            super().operation(operation, block)

    def together(self, operation: Operation, block: Block) -> None:
        """Print an operation of a plane, whose units meet again before it where they may be apart.

        What is shuffled is repeated where it has 64 bits.
        """
        if self.kernel.plane > 1:
            if self.dialect.lanes == 1:
                self.dialect.refuse("subgroups")
            for value in operation.operands:
                self.texts[value] = self.atom(value)
            if self.dialect.diverges:
                self.line("subgroupBarrier();")
        units.plane(self, operation, block)

    def barrier(self, operation: Operation) -> None:
        """Print a barrier of the cube, also for global memory that units hand to each other."""
        self.settle()
        if operation.attributes.get("name") or operation.attributes.get("count"):
            self.dialect.refuse("named barriers")
        if self.kernel.units > 1:
            self.line("workgroupBarrier();")
            if self.across:
                self.line("storageBarrier();")

    @contextmanager
    def rounds(
        self, index: Expression, type: Type, begin: str, test: str, forward: str
    ) -> Iterator[None]:
        """Put what is printed inside a loop, and look after it where a driver ends loops."""
        if not self.dialect.limited:
            with super().rounds(index, type, begin, test, forward):
                yield
            return
        self.line(begin)
        with self.braces(f"for (; {test}; {forward})"):
            begun = len(self.lines)
            yield
            body, indent = self.lines[begun:], "  " * self.depth
            # A short body is printed again, so that there are fewer turns.
            for _ in range(_TURNS - 1) if len(body) <= _SHORT else ():
                self.line(f"{forward};")
                self.line(f"if (!({test})) {{ break; }}")
                self.lines += [f"{indent}{{", *body, f"{indent}}}"]
        # The zero is for the compiler, which takes it for granted that loops end.
        kind = self.dialect.type(type)
        zero = "u64(args.zero)" if kind == "i64" else "args.zero"
        self.line(f"{index.text} += {kind}({zero});")
        self.line(f"if ({test}) {{ atomicStore(&trouble, 1u); }}")

    def repeat(self, operation: Operation, block: Block) -> None:
        """Print ``while``."""
        if not self.dialect.limited:
            super().repeat(operation, block)
            return
        outer, ended = self.leaving, self.fresh("ended")
        self.line(f"var {ended} = false;")
        self.leaving = f"{ended} = true; "
        super().repeat(operation, block)
        self.leaving = outer
        self.line(f"if (!{ended}) {{ atomicStore(&trouble, 1u); }}")

    def text(self) -> str:
        """Return the module."""
        fields, named, buffers = self.parameters()
        for own in self.kernel.memories:
            name = self.memories[own] = self.fresh(own.name)
            length = (own.size or 0) // (4 if own in self.wide else 1)
            declared = f"{name}: array<{memory.element_type(self, own)}, {length}>;"
            if own.space == "shared":
                buffers.append(f"var<workgroup> {declared}")
            else:
                self.line(f"var {declared}")
        self.shared_fits()
        self.block(self.kernel.body)
        body = "".join(f"{line}\n" for line in self.lines)
        size, head, unit = self.units()
        return (
            f"struct Arguments {{\n{fields}}}\n"
            "@group(0) @binding(0) var<uniform> args: Arguments;\n"
            f"{''.join(f'{b}{chr(10)}' for b in buffers)}\n{self.helpers.text()}"
            f"@compute @workgroup_size({size})\nfn main({head}) {{\n{unit}"
            "  let cubes = vec3<u32>(args.cubes_x, args.cubes_y, args.cubes_z);\n"
            "  var cube = group;\n"
            f"  if (cubes.x > {MOST_CUBES}u) {{\n"
            f"    cube.x += group.y / cubes.y * {MOST_CUBES}u;\n    cube.y = group.y % cubes.y;\n"
            "    if (cube.x >= cubes.x) { return; }\n  }\n"
            f"{named}{body}}}\n"
        )

    def units(self) -> tuple[str, str, str]:
        """Return the size of a cube, the builtins of a unit, and the line that places it.

        Where planes are asked for, cubes have one axis, as WGSL demands.
        """
        x, y, z = self.kernel.cube
        head = "@builtin(workgroup_id) group: vec3<u32>, "
        planes_ = any(
            o.name.startswith("plane_") or o.name == "lane_position"
            for o in self.kernel.body.walk()
        )
        if self.kernel.plane == 1 or not planes_:
            unit = "  let lane = 0u;\n  let plane = 0u;\n" if planes_ else ""
            return f"{x}, {y}, {z}", f"{head}@builtin(local_invocation_id) unit: vec3<u32>", unit
        head += (
            "@builtin(local_invocation_index) number: u32,\n"
            "    @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_id) plane: u32"
        )
        unit = f"  let unit = vec3<u32>(number % {x}u, number / {x}u % {y}u, number / {x * y}u);\n"
        return str(x * y * z), head, unit

    def parameters(self) -> tuple[str, str, list[str]]:
        """Return the fields of the arguments, the lines that name them, and the buffers."""
        buffers: list[str] = []
        places: list[int] = []
        fields, named = "", ""
        given = self.kernel.parameters
        count = len(given) - sum(p.memory is not None for p in given)
        for number, parameter in enumerate(given):
            name, dtype = self.fresh(parameter.name), parameter.declared.dtype
            type = "u32"
            if parameter.memory is not None:
                self.memories[parameter.memory] = name
                places.append(number)
                held = memory.element_type(self, parameter.memory)
                place = f"@group(0) @binding({len(buffers) + 1})"
                buffers.append(f"{place} var<storage, read_write> {name}: array<{held}>;")
            else:
                assert parameter.value is not None
                self.texts[parameter.value] = Expression(name)
                # Offsets, which come last, have the fields of their buffers.
                own = number if number < count else places[number - count]
                value = f"args.a{own}" + (" != 0u" if dtype.kind == "bool" else "")
                named += f"  let {name} = {value};\n"
                type = argument_type(self.dialect, dtype)
            if number < count:
                fields += f"  a{number}: {type},\n"
        if self.dialect.limited:
            place = f"@group(0) @binding({len(buffers) + 1})"
            buffers.append(f"{place} var<storage, read_write> trouble: atomic<u32>;")
        if len(buffers) > self.dialect.buffers:
            self.dialect.refuse(f"kernels of {len(buffers)} buffers, above {self.dialect.buffers}")
        fields += "".join(f"  {name}: u32,\n" for name in COUNTS)
        return fields, named, buffers

    def shared_fits(self) -> None:
        """Refuse a kernel whose shared memory is too small for a word per element."""
        total = 0
        for own in self.kernel.memories:
            if own.space == "shared":
                size = max(4, own.type.dtype.itemsize)
                total = -(-total // 16) * 16 + size * (own.size or 0)
        if total > self.dialect.shared_bytes:
            self.dialect.refuse(
                f"{total} bytes of shared memory, above {self.dialect.shared_bytes}"
            )
