"""Printing of ``dot``: products of groups of lanes, summed in a wider type.

Requirements: vpdpbusd takes unsigned by signed bytes only, and vdpbf16ps flushes denormals. Other
pairs of bytes are shifted into its range and the sums corrected, exactly. Without these
instructions, pairs are multiplied in a form that becomes pmaddwd.
"""

from __future__ import annotations

from calor.dtypes import bfloat16, float32, int8, int32, uint8
from calor_cpu.printer_casts import convert
from calor_cpu.printer_values import combine, intrinsic, prints
from calor_cpu.writer import Writer, llvm, vector
from calor_kernel.ir.nodes import Operation
from calor_kernel.ir.types import Type

_BYTES = (int8, uint8)


@prints("dot")
def _dot(w: Writer, operation: Operation) -> None:
    a, b, c = operation.operands
    group, rest = divmod(a.type.width, c.type.width)
    if rest or a.type.width != b.type.width:
        raise w.refuse(operation, f"{a.type} and {b.type} do not group into {c.type}")
    x, y, z = (w.use(v) for v in operation.operands)
    width = c.type.width
    bytes_ = a.type.dtype in _BYTES and b.type.dtype in _BYTES and c.type.dtype is int32
    halves = a.type.dtype is b.type.dtype is bfloat16 and c.type.dtype is float32
    if bytes_ and group == 4 and _fits(w, width, "avx512vnni", "avxvnni"):
        name = _dot_bytes(w, a.type, x, b.type, y, z, width)
    elif bytes_ and group == 4:
        name = _dot_words(w, a.type, x, b.type, y, z, width)
    elif halves and group == 2 and _fits(w, width, "avx512bf16"):
        name = _dot_halves(w, a.type, x, y, z, width)
    else:
        name = _dot_plain(w, a.type, x, b.type, y, c.type, z)
    w.names[operation.result] = name


def _fits(w: Writer, width: int, *flags: str) -> bool:
    """Return whether the processor has one of the instructions for full registers."""
    if not w.target.is_x86 or not any(map(w.target.has, flags)):
        return False
    bits = width * 32
    if w.target.has(flags[0]):
        small = bits in (128, 256) and w.target.has("avx512vl")
        return small or (bits % 512 == 0 and bits > 0)
    return bits == 128 or bits % 256 == 0


def _pieces(width: int, widest: int) -> list[range]:
    step = min(width, widest)
    return [range(i, i + step) for i in range(0, width, step)]


def _dot_bytes(w: Writer, p: Type, x: str, q: Type, y: str, z: str, width: int) -> str:
    """Return sums by vpdpbusd, with an unsigned first and a signed second operand.

    a·b = (a + 128)·b − 128·b for signed a; a·b = a·(b − 128) + 128·a for unsigned b.
    """
    if p.dtype is int8 and q.dtype is uint8:
        p, x, q, y = q, y, p, x
    flip = vector("i8", p.width)
    bit = w.splat("i8", p.width, "-128")
    if p.dtype is int8:
        moved = w.let(f"xor {flip} {x}, {bit}")
        sums = _vnni(w, p, moved, y, z, width)
        less = _vnni(w, p, bit, y, "zeroinitializer", width)
        return w.let(f"sub {vector('i32', width)} {sums}, {less}")
    if q.dtype is uint8:
        moved = w.let(f"xor {flip} {y}, {bit}")
        sums = _vnni(w, p, x, moved, z, width)
        ones = _vnni(w, p, x, w.splat("i8", p.width, "1"), "zeroinitializer", width)
        words = vector("i32", width)
        more = w.let(f"shl {words} {ones}, {w.splat('i32', width, '7')}")
        return w.let(f"add {words} {sums}, {more}")
    return _vnni(w, p, x, y, z, width)


def _vnni(w: Writer, type: Type, x: str, y: str, z: str, width: int) -> str:
    widest = 16 if w.target.has("avx512vnni") else 8
    return _by_registers(w, "avx512.vpdpbusd", type, x, y, Type(int32, width), z, widest)


def _by_registers(
    w: Writer, name: str, type: Type, x: str, y: str, sums: Type, z: str, widest: int
) -> str:
    """Call an intrinsic of x86 on each register of the operands."""
    results: list[str] = []
    pieces = _pieces(sums.width, widest)
    group = type.width // sums.width
    step = len(pieces[0])
    half = type.dtype is bfloat16
    of = vector("bfloat" if half else "i8", step * group)
    for piece in pieces:
        lanes = range(piece.start * group, piece.stop * group)
        parts = [
            v if len(pieces) == 1 or not v.startswith("%") else w.shuffle(t, v, r)
            for v, t, r in ((x, type, lanes), (y, type, lanes), (z, sums, piece))
        ]
        if half:
            bits = vector("i16", step * group)
            parts[:2] = [w.let(f"bitcast {bits} {v} to {of}") for v in parts[:2]]
        result = llvm(sums.wide(step))
        call = f"llvm.x86.{name}.{step * 32}"
        results.append(w.call(result, call, (result, parts[2]), (of, parts[0]), (of, parts[1])))
    return w.join(sums.wide(step), results)


def _dot_halves(w: Writer, type: Type, x: str, y: str, z: str, width: int) -> str:
    return _by_registers(w, "avx512bf16.dpbf16ps", type, x, y, Type(float32, width), z, 16)


def _dot_words(w: Writer, p: Type, x: str, q: Type, y: str, z: str, width: int) -> str:
    """Return sums of products of bytes, computed as products of 16-bit words summed in pairs."""
    words, pairs = vector("i16", width * 2), vector("i32", width * 2)
    total = z
    for odd in (False, True):
        wide = []
        for type, name in ((p, x), (q, y)):
            whole = w.let(f"bitcast {llvm(type)} {name} to {words}")
            eight = w.splat("i16", width * 2, "8")
            shift = "ashr" if type.dtype is int8 else "lshr"
            if not odd:
                whole = w.let(f"shl {words} {whole}, {eight}")
            wide.append(
                w.let(f"sext {words} {w.let(f'{shift} {words} {whole}, {eight}')} to {pairs}")
            )
        products = w.let(f"mul nsw {pairs} {wide[0]}, {wide[1]}")
        of = Type(int32, width * 2)
        even, rest = (_strided(w, of, products, 2, k) for k in range(2))
        both = combine(w, "add", Type(int32, width), even, rest)
        total = combine(w, "add", Type(int32, width), total, both)
    return total


def _dot_plain(w: Writer, p: Type, x: str, q: Type, y: str, sums: Type, z: str) -> str:
    """Return the sums, one product after another, in the type of the sums."""
    group = p.width // sums.width
    wide_x, wide_y = convert(w, p, x, sums.dtype), convert(w, q, y, sums.dtype)
    of = Type(sums.dtype, p.width)
    for k in range(group):
        one, other = (_strided(w, of, v, group, k) for v in (wide_x, wide_y))
        if sums.dtype.kind == "float" and w.target.has_fma:
            z = intrinsic(w, "fma", sums, one, other, z)
        else:
            z = combine(w, "add", sums, z, combine(w, "mul", sums, one, other))
    return z


def _strided(w: Writer, type: Type, name: str, step: int, first: int) -> str:
    """Return every step-th lane."""
    lanes = range(first, type.width, step)
    if type.width == 1:
        return name
    if len(lanes) == 1:
        return w.let(f"extractelement {llvm(type)} {name}, i64 {first}")
    return w.shuffle(type, name, lanes)
