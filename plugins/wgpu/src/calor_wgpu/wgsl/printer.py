"""Printer of a kernel as WGSL: the module around a body, its arguments and its loops.

Requirements: numbers and offsets are in one uniform struct, so recording writes them once and a
launch only binds. Every buffer is bound from the start of its piece, because indices relative to an
offset may be negative. If a launch has more cubes along x than a dispatch allows, they are folded
into y.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from calor_kernel.ir.nodes import Block, Kernel, Operation, Value
from calor_kernel.ir.passes import branch_uniform_masks, optimize, split_vectors, sweep
from calor_kernel.ir.types import Type
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.c import KernelPrinter
from calor_kernel.printers.expressions import Expression
from calor_wgpu import passes
from calor_wgpu.structs import COUNTS

from . import memory
from .dialect import WGSL
from .helpers import Functions
from .scalars import WGSLScalars

# Limit of the cubes of a dispatch along an axis.
MOST_CUBES: Final = 65535
# On drivers that cut off loops: the limit of lines of an unrolled body, and the unroll factor.
_SHORT: Final = 48
_TURNS: Final = 4


def print_wgsl(kernel: Kernel, dialect: WGSL) -> str:
    """Return a kernel as a module with the entry point ``main``.

    The arguments are binding 0, with the layout of :mod:`calor_wgpu.structs`; buffers
    follow.

    Raises
    ------
    CompileError
        If WGSL cannot express the kernel.
    """
    made = passes.choose_memory(optimize(kernel))
    if dialect.coherent:
        passes.check_fences(made)
    made = passes.mask_branched_loads(branch_uniform_masks(made))
    made = passes.branch_chosen_loads(made)
    made = passes.mask_branched_loads(made, zeros=True) if dialect.zeros else made
    made = passes.divide_by_products(made) if dialect.wide else made
    # A driver that cuts off loops is a software renderer, whose compiler is slow for long texts.
    made = split_vectors(made if dialect.limited else passes.unroll_loops(made), dialect.widths)
    made = passes.advance_loads(made) if dialect.zeros else made
    made = passes.count_vectors(passes.lower_accesses(made, dialect.zeros), memory.width_of)
    sweep(made)
    return WGSLPrinter(made, dialect).text()


class WGSLPrinter(KernelPrinter):
    """Prints one kernel."""

    dialect: WGSL
    scalars: WGSLScalars
    elements: memory.WGSLElements

    def __init__(self, kernel: Kernel, dialect: WGSL, functions: Functions | None = None) -> None:
        super().__init__(kernel, dialect)
        self.helpers = functions or Functions(dialect, WGSLPrinter, dialect.wide and dialect.double)
        self.scalars = WGSLScalars(dialect, self.helpers)
        self.elements = memory.WGSLElements(self, dialect, self.scalars)
        read, written = passes.touched(kernel)
        handed = read & written
        many = bool(handed) and kernel.units > 1
        # The barriers that order accesses of storage.
        self.ordering = passes.ordering_barriers(kernel, handed) if many else set()
        self.coherent = handed if passes.has_fences(kernel) else set()
        # Memories that are bound for writing, as atomics are too that are only read.
        self.writable = written | self.elements.atomics
        self.distant = read | written
        # Vectors of zeros.
        self.zeros: set[Value] = set()
        passes.flag_unjoined(kernel)
        # The block in which units converged last, and its number of lines.
        self.met: tuple[list[str], int] = [], 0

    def branch(self, operation: Operation, block: Block) -> None:
        """Print ``if``."""
        then, otherwise = operation.regions
        last = then.operations[-1].name if then.operations else ""
        fills = otherwise.yields if last == "load" and not otherwise.operations else ()
        with self.filling(fills):
            super().branch(operation, block)

    @contextmanager
    def filling(self, fills: Sequence[Value]) -> Iterator[None]:
        """Print zeros in place of elements that are not read as plain ones."""
        zeros = {value for value in fills if value in self.zeros or _is_zero(value)}
        hidden = {value: self.texts.get(value) for value in zeros}
        for value in zeros:
            self.waiting.pop(value, None)
            self.texts[value] = Expression(f"{self.dialect.type(value.type)}()")
        yield
        self.texts.update({value: text for value, text in hidden.items() if text is not None})

    def operation(self, operation: Operation, block: Block) -> None:
        """Print one operation and the statements that it needs around it."""
        name, said = operation.name, operation.attributes
        if name == "splat" and _is_zero(operation.operands[0]):
            self.zeros.add(operation.result)
        order = said.get("order") or "relaxed"
        if operation.memory is not None and order != "relaxed":
            self.dialect.refuse(f"{name}s with {order} order")
        if name.startswith("plane_") and operation.operands and self.kernel.plane > 1:
            self.meet(operation)
        if name == "load" and said.get("masked"):
            self.read_on(operation, block)
            return
        super().operation(operation, block)
        if name == "load" and operation.memory in self.distant and self.uses[operation.result]:
            # Behind the arithmetic that a kernel loads ahead of, units would wait for it.
            self.texts[operation.result] = self.atom(operation.result)
        if id(operation) in self.ordering:
            self.line("storageBarrier();")

    def read_on(self, operation: Operation, block: Block) -> None:
        """Print a masked load of four words, which reads whatever its mask is.

        What is read is chosen where it is used: until then no unit waits for it.
        """
        memory, result = operation.memory, operation.result
        if memory is None or not self.uses[result]:
            return
        index, mask = self.operand(operation.operands[0]), self.atom(operation.operands[1])
        with self.filling(operation.operands[2:]):
            other = self.operand(operation.operands[2])
        read = self.elements.within(memory, index)
        made = ex.call("select", other, self.named(read, result.type, f"{memory.name}_"), mask)
        self.define(result, made, "t", block)

    def settle(self, *, loads: bool = True) -> None:
        """Name all pending loads before a write: compilers leave a load behind what is written."""
        super().settle(loads=True)

    def meet(self, operation: Operation) -> None:
        """Reconverge the units of a plane before a plane operation, if they may have diverged.

        A 64-bit shuffle is two shuffles. Units stay converged until a branch, which ``&&`` and
        ``||`` are too.
        """
        if self.dialect.lanes == 1:
            self.dialect.refuse("subgroups")
        for value in operation.operands:
            self.texts[value] = self.atom(value)
        lines, count = self.met
        apart = lines is not self.lines or self.helpers.branches("".join(lines[count:]))
        if apart and self.dialect.diverges:
            # A load behind the barrier begins when the plane has what its units exchange.
            self.settle()
            self.line("subgroupBarrier();")
        self.met = self.lines, len(self.lines)

    @contextmanager
    def rounds(
        self, index: Expression, type: Type, begin: str, test: str, forward: str
    ) -> Iterator[None]:
        """Print a loop's body, with a check after the loop if the driver cuts off loops."""
        if not self.dialect.limited:
            with super().rounds(index, type, begin, test, forward):
                yield
            return
        self.line(begin)
        with self.braces(f"for (; {test}; {forward})"):
            begun = len(self.lines)
            yield
            body, indent = self.lines[begun:], "  " * self.depth
            # A short body is unrolled, which reduces the number of iterations.
            for _ in range(_TURNS - 1) if len(body) <= _SHORT else ():
                self.line(f"{forward};")
                self.line(f"if (!({test})) {{ break; }}")
                self.lines += [f"{indent}{{", *body, f"{indent}}}"]
        # The zero hides the condition from the compiler, which assumes that loops end.
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
            length = (own.size or 0) // (4 if own in self.elements.wide else 1)
            declared = f"{name}: array<{self.elements.type(own)}, {length}>;"
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
        """Return the size of a cube, the builtins of a unit, and the line of its position.

        With planes, cubes have one axis, as WGSL requires.
        """
        x, y, z = self.kernel.cube
        head = "@builtin(workgroup_id) group: vec3<u32>, "
        names = {o.name for o in self.kernel.body.walk()}
        planes = "lane_position" in names or any(name.startswith("plane_") for name in names)
        if self.kernel.plane == 1 or not planes:
            unit = "  let lane = 0u;\n  let plane = 0u;\n" if planes else ""
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
                held = self.elements.type(parameter.memory)
                place = f"@group(0) @binding({len(buffers) + 1})"
                access = "read_write" if parameter.memory in self.writable else "read"
                if parameter.memory in self.coherent:
                    place += " @coherent"
                buffers.append(f"{place} var<storage, {access}> {name}: array<{held}>;")
            else:
                assert parameter.value is not None
                self.texts[parameter.value] = Expression(name)
                # Offsets come last, and their fields follow their buffers.
                own = number if number < count else places[number - count]
                value = f"args.a{own}" + (" != 0u" if dtype.kind == "bool" else "")
                named += f"  let {name} = {value};\n"
                type = self.dialect.argument(dtype)
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
        """Raise CompileError if shared memory is too small for one word for each element."""
        shared = [own for own in self.kernel.memories if own.space == "shared"]
        sizes = [max(4, own.type.dtype.itemsize) * (own.size or 0) for own in shared]
        total, most = sum(-(-size // 16) * 16 for size in sizes), self.dialect.shared_bytes
        if total > most:
            self.dialect.refuse(f"{total} bytes of shared memory, above {most}")


def _is_zero(value: Value) -> bool:
    """Return whether a value is the positive float zero."""
    return value.type.dtype.kind == "float" and str(value.known) == "0.0"
