"""Matrix instructions of a warp, and asynchronous copies to shared memory, as PTX.

Requirements: a fragment's registers, by :mod:`calor_kernel.language.matrices`, are PTX's own, so
its structure is passed unchanged. TF32 factors are rounded, not truncated. (PTX ISA 9.7.9.25,
9.7.14, 9.7.15.)
"""

from __future__ import annotations

from typing import Final

from calor.dtypes import DType, bfloat16, float16, float32, float64, int8
from calor_kernel.ir.nodes import Block, Operation
from calor_kernel.ir.types import Type
from calor_kernel.language.copies import OWN
from calor_kernel.printers import expressions as ex
from calor_kernel.printers import ptx
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.printer import Printer

_NAMES: Final = {float16: "f16", bfloat16: "bf16", int8: "s8", float32: "tf32", float64: "f64"}
# Groups other than units' copies: products, and box stores.
_COMMITS: Final = {
    "matrix": "wgmma.commit_group.sync.aligned",
    "tensor": "cp.async.bulk.commit_group",
}
_WAITS: Final = {
    "matrix": "wgmma.wait_group.sync.aligned",
    "tensor": "cp.async.bulk.wait_group",
}


_COMPUTED: Final = (
    "static __device__ __forceinline__ void computed(uint32 x) {\n"
    '  asm volatile("{\\n.reg .pred same;\\nsetp.eq.u32 same, %0, 0x7fc0ca10;\\n'
    '@!same bra done;\\nnanosleep.u32 20;\\ndone:\\n}" ::"r"(x) : "memory");\n}'
)


def _folded(printer: Printer, type: Type, value: Expression) -> str:
    """Return all words of a value combined into one."""
    count, name = type.nbytes // 4, f"folded_{type.dtype.name}x{type.width}"
    words = " ^ ".join(f"x[{i}]" for i in range(count))
    printer.helpers.add(
        name,
        f"{printer.dialect.function_prefix} uint32 {name}({printer.dialect.type(type)} value) {{\n"
        f"  uint32 x[{count}];\n  memcpy(x, &value, sizeof x);\n  return {words};\n}}",
    )
    return ex.call(name, value).text


def _words(dtype: DType, count: int) -> int:
    return max(count * int(dtype.itemsize) // 4, 1)


def _listed(first: int, count: int) -> str:
    return f"{{{', '.join(f'%{first + i}' for i in range(count))}}}"


def mma(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a product of fragments of a warp."""
    dialect = printer.dialect
    m, n, k = operation.attributes["shape"]
    types = [v.type for v in operation.operands]
    factor, total = types[0].dtype, types[2].dtype
    if factor not in _NAMES or factor is float64:
        dialect.refuse(f"products of fragments of {factor}")
    operands = [printer.operand(v) for v in operation.operands]
    name = f"mma_{m}x{n}x{k}_{factor.name}"
    printer.helpers.add(name, _mma_text(printer, name, (m, n, k), types))
    assert total in (float32, operation.result.type.dtype)
    printer.effect(operation, block, ex.call(name, *operands), "product")


def _mma_text(printer: Printer, name: str, shape: tuple[int, int, int], types: list[Type]) -> str:
    dialect = printer.dialect
    a, b, c = types
    left, right, sums = _words(a.dtype, a.width), _words(b.dtype, b.width), c.width
    kind, out = _NAMES[a.dtype], "s32" if a.dtype is int8 else "f32"
    m, n, k = shape
    code = (
        f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{out}.{kind}.{kind}.{out} {_listed(0, sums)}, "
        f"{_listed(sums, left)}, {_listed(sums + left, right)}, {_listed(0, sums)};"
    )
    register = "r" if a.dtype is int8 else "f"
    outputs = ", ".join(f'"+{register}"(c.v[{i}])' for i in range(sums))
    inputs = ", ".join(f'"r"({v}[{i}])' for v, w in (("x", left), ("y", right)) for i in range(w))
    rounded = ""
    if a.dtype is float32:
        for v, w in (("x", left), ("y", right)):
            for i in range(w):
                rounded += f'  asm("cvt.rna.tf32.f32 %0, %0;" : "+r"({v}[{i}]));\n'
    declared = ", ".join(f"{dialect.type(t)} {v}" for t, v in zip(types, "abc", strict=True))
    return (
        f"{dialect.function_prefix} {dialect.type(c)} {name}({declared}) {{\n"
        f"  uint32 x[{left}], y[{right}];\n"
        f"  memcpy(x, &a, sizeof x);\n  memcpy(y, &b, sizeof y);\n{rounded}"
        f'  asm("{code}"\n      : {outputs}\n      : {inputs});\n  return c;\n}}'
    )


def load_matrix(printer: Printer, operation: Operation, block: Block) -> None:
    """Print a warp's load of 8 by 8 blocks (ldmatrix)."""
    memory, count = operation.memory, operation.attributes["count"]
    assert memory is not None
    index = printer.operand(operation.operands[0])
    place = ex.prefix("&", printer.elements.place(memory, index))
    transposed = operation.attributes.get("transposed", False)
    name = f"load_matrix_x{count}{'_transposed' if transposed else ''}"
    type = printer.dialect.type(operation.result.type)
    code = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    outputs = ", ".join(f'"=r"(x[{i}])' for i in range(count))
    printer.helpers.add(
        name,
        f"{printer.dialect.function_prefix} {type} {name}(const void *place) {{\n"
        f"  {type} y;\n  uint32 x[{count}], from = (uint32)__cvta_generic_to_shared(place);\n"
        f'  asm volatile("{code} {_listed(0, count)}, [%{count}];"\n      : {outputs}\n'
        f'      : "r"(from) : "memory");\n  memcpy(&y, x, sizeof y);\n  return y;\n}}',
    )
    printer.effect(operation, block, ex.call(name, place), "block")


def copy(printer: Printer, operation: Operation, block: Block) -> None:
    """Print an asynchronous copy of 4, 8 or 16 bytes to shared memory."""

    def function(name: str, code: str) -> str:
        return (
            f"{printer.dialect.function_prefix} void {name}("
            f"void *to, const void *of, uint32 taken) {{\n"
            f"  uint32 place = (uint32)__cvta_generic_to_shared(to);\n"
            f'  asm volatile("{code}" ::"r"(place), "l"(of), "r"(taken) : "memory");\n}}'
        )

    ptx.copy(printer, operation, function)


def commit(printer: Printer, operation: Operation, block: Block) -> None:
    """Print the commit of a group of copies, or of asynchronous products."""
    code = _COMMITS.get(operation.attributes["group"])
    if code is None:
        ptx.commit(printer, operation, block)
        return
    printer.settle()
    printer.line(ptx.statement(code))


def wait(printer: Printer, operation: Operation, block: Block) -> None:
    """Print the wait for all but the latest groups of a kind."""
    computed = [printer.operand(v) for v in operation.operands]
    printer.settle()
    pending, group = operation.attributes["pending"], operation.attributes["group"]
    if computed:
        # A rarely taken branch keeps earlier operations from moving behind the wait.
        words = [
            _folded(printer, v.type, x) for v, x in zip(operation.operands, computed, strict=True)
        ]
        printer.helpers.add("computed", _COMPUTED)
        printer.line(f"computed({' ^ '.join(words)});")
    if group in _WAITS:
        read = ".read" if operation.attributes.get("read") else ""
        printer.line(ptx.statement(f"{_WAITS[group]}{read} {pending}"))
        return
    ptx.wait(printer, operation, block)
    if group != OWN and any(o.name == "mma_async" for o in printer.kernel.body.walk()):
        # Asynchronous products read shared memory through another proxy than the units' writes.
        printer.line('asm volatile("fence.proxy.async.shared::cta;" ::: "memory");')
