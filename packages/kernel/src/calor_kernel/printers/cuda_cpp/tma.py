"""Copies of boxes by the copy engine, and barriers in memory, as PTX of compute capability 9.0.

Requirements: a box lies in shared memory as the engine leaves it, in rows one after another that
are swizzled or not, and what lies otherwise is refused; a tensor's descriptor is an argument after
those of the kernel, in the order of the kernel's attribute "maps", and stays where arguments are.
Barriers of cubes that run in clusters order what all cubes of a cluster do.
(PTX ISA 9.7.9.27, 9.7.13.15.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Value
from calor_kernel.language.layouts import Layout
from calor_kernel.language.swizzles import Swizzled
from calor_kernel.printers import expressions as ex
from calor_kernel.printers import units
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.printer import Printer

if TYPE_CHECKING:
    from calor_kernel.language.tensor_maps import Descriptor

_REGISTERS: Final = 64 << 10
_FUNCTION: Final = "static __device__ __forceinline__"
_SHARED: Final = "(uint32)__cvta_generic_to_shared({})"
# What a swizzle's numbers are in bytes: bits of 16 bytes, eight of them above.
_PIECE, _SHIFT = 16, 3
TYPE: Final = (
    "struct __align__(64) tensor_map { uint64 words[16]; };\n\n"
    f"{_FUNCTION} void fetch_map(const tensor_map *map) {{\n"
    '  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");\n}\n'
)


def map_name(number: int) -> str:
    """Return the name of the argument that a map is."""
    return f"launched_map_{number}"


def declared_maps(kernel: Kernel) -> list[str]:
    """Return the parameters of a kernel's maps."""
    count = len(kernel.attributes.get("maps", ()))
    return [f"const __grid_constant__ tensor_map {map_name(i)}" for i in range(count)]


def fetched_maps(count: int) -> str:
    """Return what a kernel begins with: its maps come while it makes its barriers."""
    lines = "".join(f"    fetch_map(&{map_name(i)});\n" for i in range(count))
    return f"  if (threadIdx.x == 0) {{\n{lines}  }}\n"


# Barriers in memory.
def _at(printer: Printer, memory: Memory | None, index: Value) -> Expression:
    assert memory is not None
    return ex.prefix("&", printer.elements.place(memory, printer.operand(index)))


def _barrier(printer: Printer, operation: Operation, name: str, text: str, more: str = "") -> None:
    """Print a call of a function on a barrier, whose instruction is ``text``."""
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
    """Print the making of a barrier, which the copy engine sees too."""
    fence = '  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");\n'
    text = "mbarrier.init.shared::cta.b64 [%0], %1;"
    _barrier(printer, operation, "barrier_init", text, fence)


def expect(printer: Printer, operation: Operation, block: Block) -> None:
    """Print that bytes are expected."""
    text = "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
    _barrier(printer, operation, "barrier_expect", text)


def arrive(printer: Printer, operation: Operation, block: Block) -> None:
    """Print an arrival, at a barrier of another cube of the cluster if that is said.

    Cubes share no memory but what boxes bring, so that an arrival at another's barrier says only
    that this cube has read its own: a release to the whole cluster would wait until all that the
    unit wrote is in the memory of the device, about a microsecond for each step of a ring.
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
    """Print the wait for a phase: asked again and again, each time for a while of the hardware's.

    Its labels are those of a block of PTX, of which each place in the text has its own.
    """
    text = (
        "{\\n.reg .pred over;\\nagain:\\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 over, [%0], %1;\\n"
        "@over bra done;\\nbra again;\\ndone:\\n}"
    )
    _barrier(printer, operation, "barrier_wait", text)


# Boxes.
def _map(printer: Printer, made: Descriptor) -> Expression:
    """Return the argument of a map; refuse what the engine does not leave so."""
    if not _as_left(made.at, made.box, made_bytes(printer, made)):
        printer.dialect.refuse(f"boxes of {made.box} that lie as {made.at}")
    number = printer.kernel.attributes["maps"].index(made.plain)
    return Expression(f"&{map_name(number)}")


def made_bytes(printer: Printer, made: Descriptor) -> int:
    """Return the bytes of an element of a map's tensor."""
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
    """Return a position, the last axis first, as the engine counts them."""
    return [ex.prefix("(int32)", printer.operand(v)) for v in reversed(values)]


def copy(printer: Printer, operation: Operation, block: Block) -> None:
    """Print the start of a copy to shared memory, whose bytes count at a barrier."""
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


# What units do.
def barrier(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a barrier; what was written before it is seen by the engine that copies it.

    Those with names hand over turns, and nothing that the engine reads.
    """
    said = operation.attributes
    several = said.get("scope", "cube") != "plane" and not said.get("name")
    if several and any(o.name == "store_tensor" for o in printer.kernel.body.walk()):
        printer.settle()
        printer.line('asm volatile("fence.proxy.async.shared::cta;" ::: "memory");')
    units.barrier(printer, operation, block)


def role(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a role: the last of those that stand together and are all units needs no question.

    The compiler takes budgets of registers where the roles are the ways of one choice.
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
    """Return whether the roles up to a place, next to each other, begin with unit 0."""
    while block.operations[place - 1].name == "role" and place:
        place -= 1
    return bool(block.operations[place].attributes["first"] == 0)


def _budget(printer: Printer, operation: Operation) -> None:
    """Print that a role's units give registers away, or take those of others."""
    wanted, kernel = operation.attributes.get("registers"), printer.kernel
    if not wanted or kernel.attributes.get("cubes_per_core") is None:
        return
    cubes: int = kernel.attributes["cubes_per_core"]
    have = _REGISTERS // (kernel.units * cubes) // 8 * 8
    way = "dec" if wanted < have else "inc"
    printer.line(f'asm volatile("setmaxnreg.{way}.sync.aligned.u32 {wanted};");')
