"""TMA box copies and mbarriers, as PTX of compute capability 9.0.

Requirements: a box in shared memory has the engine's layout: consecutive rows, swizzled or not.
Other layouts are refused. A tensor's descriptor is a kernel argument after the declared ones, in
the order of the kernel's attribute "maps", and remains in parameter space. Barriers of clustered
cubes synchronize all cubes of the cluster. (PTX ISA 9.7.9.27, 9.7.13.15.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Value
from calor_kernel.language.layouts import Layout, Swizzled
from calor_kernel.printers import expressions as ex
from calor_kernel.printers import units
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.printer import Printer

if TYPE_CHECKING:
    from calor_kernel.language.tensor_maps import Descriptor

_REGISTERS: Final = 64 << 10
_FUNCTION: Final = "static __device__ __forceinline__"
_SHARED: Final = "(uint32)__cvta_generic_to_shared({})"
# A swizzle's unit is 16 bytes; its source bits lie three above.
_PIECE, _SHIFT = 16, 3
TYPE: Final = (
    "struct __align__(64) tensor_map { uint64 words[16]; };\n\n"
    f"{_FUNCTION} void fetch_map(const tensor_map *map) {{\n"
    '  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");\n}\n'
)


def map_name(number: int) -> str:
    """Return the argument name of a map."""
    return f"launched_map_{number}"


def declared_maps(kernel: Kernel) -> list[str]:
    """Return the parameter declarations of a kernel's maps."""
    count = len(kernel.attributes.get("maps", ()))
    return [f"const __grid_constant__ tensor_map {map_name(i)}" for i in range(count)]


def fetched_maps(count: int) -> str:
    """Return the prologue that prefetches the maps while the kernel initializes its barriers."""
    lines = "".join(f"    fetch_map(&{map_name(i)});\n" for i in range(count))
    return f"  if (threadIdx.x == 0) {{\n{lines}  }}\n"


# Barriers in memory.
def _at(printer: Printer, memory: Memory | None, index: Value) -> Expression:
    assert memory is not None
    return ex.prefix("&", printer.elements.place(memory, printer.operand(index)))


def _barrier(printer: Printer, operation: Operation, name: str, text: str, more: str = "") -> None:
    """Print a call of a barrier function; ``text`` is its instruction."""
    place = _at(printer, operation.memory, operation.operands[0])
    rest = [printer.operand(v) for v in operation.operands[1:]]
    printer.settle()
    given, inputs = (", uint32 number", ', "r"(number)') if rest else ("", "")
    printer.helpers.add(
        name,
        f"{_FUNCTION} void {name}(uint64 *barrier{given}) {{\n"
        f'  asm volatile("{text}"\n      ::"r"({_SHARED.format("barrier")}){inputs} : "memory");\n'
        f"{more}}}",
    )
    cast = [ex.prefix("(uint32)", r) for r in rest]
    printer.line(f"{ex.call(name, place, *cast).text};")


def initialize(printer: Printer, operation: Operation, block: Block) -> None:
    """Print the initialization of a barrier, visible to the copy engine."""
    fence = '  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");\n'
    text = "mbarrier.init.shared::cta.b64 [%0], %1;"
    _barrier(printer, operation, "barrier_init", text, fence)


def expect(printer: Printer, operation: Operation, block: Block) -> None:
    """Print the expectation of a byte count."""
    text = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
    _barrier(printer, operation, "barrier_expect", text)


def arrive(printer: Printer, operation: Operation, block: Block) -> None:
    """Print an arrival, optionally at a barrier of another cube of the cluster.

    Cluster peers exchange data only by TMA, so an arrival at a peer's barrier means only that this
    cube has read its own data. A release at cluster scope would wait until all writes of the unit
    reached device memory, about a microsecond per step of a ring.
    """
    if len(operation.operands) == 1:
        text = "mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];"
        _barrier(printer, operation, "barrier_arrive", text)
        return
    text = (
        "{\\n.reg .b32 there;\\nmapa.shared::cluster.u32 there, %0, %1;\\n"
        "mbarrier.arrive.release.cta.shared::cluster.b64 _, [there];\\n}"
    )
    _barrier(printer, operation, "barrier_arrive_at", text)


def wait(printer: Printer, operation: Operation, block: Block) -> None:
    """Print the wait for a phase: a loop of try_wait, each with the hardware's time limit.

    Its labels are local to a PTX block, so every use has its own.
    """
    text = (
        "{\\n.reg .pred over;\\nagain:\\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 over, [%0], %1;\\n"
        "@over bra done;\\nbra again;\\ndone:\\n}"
    )
    _barrier(printer, operation, "barrier_wait", text)


# Boxes.
def _map(printer: Printer, made: Descriptor) -> Expression:
    """Return the argument of a map; refuse layouts that the engine does not produce."""
    if not _as_left(made.at, made.box, made_bytes(printer, made)):
        printer.dialect.refuse(f"boxes of {made.box} with the layout {made.at}")
    number = printer.kernel.attributes["maps"].index(made.plain)
    return Expression(f"&{map_name(number)}")


def made_bytes(printer: Printer, made: Descriptor) -> int:
    """Return the element size in bytes of a map's tensor."""
    parameter = next(p for p in printer.kernel.parameters if p.name == made.name)
    return int(parameter.declared.dtype.itemsize)


def _as_left(at: Layout | Swizzled, box: Sequence[int], nbytes: int) -> bool:
    plain = at.layout if isinstance(at, Swizzled) else at
    step = 1
    for mode, size in zip(list(plain)[::-1], box[::-1], strict=True):
        if size > 1 and [mode(i) for i in range(size)] != [i * step for i in range(size)]:
            return False
        step *= size
    row = box[-1] * nbytes
    if not isinstance(at, Swizzled):
        return row % _PIECE == 0
    s = at.swizzle
    return (nbytes << s.base, s.shift) == (_PIECE, _SHIFT) and row == _PIECE << s.bits


def _numbers(printer: Printer, values: Sequence[Value]) -> list[Expression]:
    """Return a position with the fastest axis first, as the engine expects."""
    return [ex.prefix("(int32)", printer.operand(v)) for v in reversed(values)]


def copy(printer: Printer, operation: Operation, block: Block) -> None:
    """Print the start of a copy to shared memory; a barrier counts its bytes."""
    said: Any = operation.attributes
    made: Descriptor = said["map"]
    rank = len(made.box)
    target = _at(printer, operation.memory, operation.operands[0])
    barrier = _at(printer, said["barrier"], operation.operands[1])
    places = _numbers(printer, operation.operands[2 : 2 + rank])
    printer.settle()
    cubes = said.get("cubes", 1)
    name = f"copy_box_{rank}" if cubes == 1 else f"copy_box_{rank}_to_{cubes}"
    inputs = [("r", _SHARED.format("to")), ("l", "map"), ("r", _SHARED.format("barrier"))]
    done, mask = "mbarrier::complete_tx::bytes", ""
    if cubes > 1:
        inputs.append(("h", f"(uint16){(1 << cubes) - 1}"))
        done, mask = f"{done}.multicast::cluster", ", %3"
    listed = ", ".join(f"%{len(inputs) + i}" for i in range(rank))
    text = (
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.{done} "
        f"[%0], [%1, {{{listed}}}], [%2]{mask};"
    )
    _box(printer, name, text, "void *to, const tensor_map *map, uint64 *barrier", inputs, rank)
    call = ex.call(name, target, _map(printer, made), barrier, *places)
    printer.line(f"{call.text};")


def store(printer: Printer, operation: Operation, block: Block) -> None:
    """Print the start of a copy from shared memory."""
    said: Any = operation.attributes
    made: Descriptor = said["map"]
    rank = len(made.box)
    source = _at(printer, said["source"], operation.operands[0])
    places = _numbers(printer, operation.operands[1 : 1 + rank])
    printer.settle()
    name = f"store_box_{rank}"
    listed = ", ".join(f"%{2 + i}" for i in range(rank))
    text = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%1, {{{listed}}}], [%0];"
    _box(
        printer, name, text, "const void *of, const tensor_map *map",
        (("r", _SHARED.format("of")), ("l", "map")), rank,
    )  # fmt: skip
    printer.line(f"{ex.call(name, source, _map(printer, made), *places).text};")


def _box(
    printer: Printer,
    name: str,
    text: str,
    parameters: str,
    inputs: Sequence[tuple[str, str]],
    rank: int,
) -> None:
    numbers = "".join(f", int32 i{i}" for i in range(rank))
    given = ", ".join(
        [f'"{kind}"({what})' for kind, what in inputs] + [f'"r"(i{i})' for i in range(rank)]
    )
    printer.helpers.add(
        name,
        f"{_FUNCTION} void {name}({parameters}{numbers}) {{\n"
        f'  asm volatile("{text}"\n      ::{given} : "memory");\n}}',
    )


# Synchronization and roles.
def barrier(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a barrier that makes earlier writes visible to the copy engine.

    Named barriers hand over turns, not data for the engine, and need no fence.
    """
    said = operation.attributes
    several = said.get("scope", "cube") != "plane" and not said.get("name")
    if several and any(o.name == "store_tensor" for o in printer.kernel.body.walk()):
        printer.settle()
        printer.line('asm volatile("fence.proxy.async.shared::cta;" ::: "memory");')
    units.barrier(printer, operation, block)


def role(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a role; the last of adjacent roles that cover all units needs no condition.

    The compiler accepts register budgets only if the roles are branches of one if.
    """
    place = block.operations.index(operation)
    first, count = operation.attributes["first"], operation.attributes["count"]
    before = block.operations[place - 1] if place else None
    chained = before is not None and before.name == "role" and first == _end(before)
    if not chained:
        printer.settle()
        units.role(printer, operation, block, lambda: _budget(printer, operation))
        return
    last = first + count == printer.kernel.units and _from_start(block, place)
    assert printer.lines[-1].strip() == "}"
    printer.lines.pop()
    head = "} else" if last else f"}} else if (threadIdx.x < {first + count})"
    with printer.braces(head):
        _budget(printer, operation)
        printer.block(operation.regions[0])


def _end(operation: Operation) -> int:
    return int(operation.attributes["first"] + operation.attributes["count"])


def _from_start(block: Block, place: int) -> bool:
    """Return whether the adjacent roles up to a position begin with unit 0."""
    while block.operations[place - 1].name == "role" and place:
        place -= 1
    return bool(block.operations[place].attributes["first"] == 0)


def _budget(printer: Printer, operation: Operation) -> None:
    """Print that a role's units release registers, or acquire those of others."""
    wanted, kernel = operation.attributes.get("registers"), printer.kernel
    if not wanted or kernel.attributes.get("cubes_per_core") is None:
        return
    cubes: int = kernel.attributes["cubes_per_core"]
    have = _REGISTERS // (kernel.units * cubes) // 8 * 8
    way = "dec" if wanted < have else "inc"
    printer.line(f'asm volatile("setmaxnreg.{way}.sync.aligned.u32 {wanted};");')
