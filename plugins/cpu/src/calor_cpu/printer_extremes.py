"""Printing of the minimum and maximum of two floats.

Requirements: NaN if one is NaN, and −0 below +0, in as few instructions as possible, because
reductions and clamps consist of it. LLVM takes six for ``llvm.maximum``; AVX-512 needs three
(vrangeps orders zeros, and the sum propagates NaN), SSE and AVX five.
"""

from __future__ import annotations

from calor_cpu.writer import Writer, element, llvm, suffix, vector
from calor_kernel.ir.types import Type

_RANGE = {"min": 4, "max": 5}  # vrangeps: the result takes the sign of the selected operand


def extreme(w: Writer, kind: str, type: Type, a: str, b: str) -> str:
    """Return the "min" or "max" of two floats, lane by lane."""
    lanes = 16 // type.dtype.itemsize
    bits = type.width * type.dtype.itemsize * 8
    if not w.target.is_x86:
        name = f"llvm.{kind}imum.{suffix(element(type.dtype), type.width)}"
        return w.call(llvm(type), name, (llvm(type), a), (llvm(type), b))
    if not (w.target.has("avx512dq") and w.target.has("avx512vl")):
        return _by_both_orders(w, kind, type, a, b)
    if type.width < lanes:
        return _padded(w, kind, type, a, b)
    if bits % 128 or (bits > 512 and bits % 512) or bits == 384:
        return _by_both_orders(w, kind, type, a, b)
    return _by_range(w, kind, type, a, b)


def _padded(w: Writer, kind: str, type: Type, a: str, b: str) -> str:
    """Return the extreme of a scalar or of less than a register, computed in a full register."""
    wide = type.wide(16 // type.dtype.itemsize)
    of = llvm(wide)
    if type.width == 1:
        one = element(type.dtype)
        names = [w.let(f"insertelement {of} poison, {one} {v}, i64 0") for v in (a, b)]
        made = _by_range(w, kind, wide, *names)
        return w.let(f"extractelement {of} {made}, i64 0")
    lanes = [*range(type.width)] * wide.width
    names = [w.shuffle(type, v, lanes[: wide.width]) for v in (a, b)]
    return w.shuffle(wide, _by_range(w, kind, wide, *names), range(type.width))


def _by_range(w: Writer, kind: str, type: Type, a: str, b: str) -> str:
    """Return the extreme by vrangeps on each register, and NaN for unordered operands."""
    size = type.dtype.itemsize
    step = min(type.width, 64 // size)
    piece = type.wide(step)
    of, mask = llvm(piece), vector("i1", step)
    flags = f"i{max(step, 8)}"
    name = f"llvm.x86.avx512.mask.range.{'ps' if size == 4 else 'pd'}.{step * size * 8}"
    made: list[str] = []
    for start in range(0, type.width, step):
        lanes = range(start, start + step)
        x, y = (v if step == type.width else w.shuffle(type, v, lanes) for v in (a, b))
        rounding = (("i32", "4"),) if step * size == 64 else ()
        every = (flags, "-1")
        choice = ("i32", str(_RANGE[kind]))
        plain = w.call(of, name, (of, x), (of, y), choice, (of, "poison"), every, *rounding)
        unordered = w.let(f"fcmp uno {of} {x}, {y}")
        total = w.let(f"fadd {of} {x}, {y}")
        made.append(w.let(f"select {mask} {unordered}, {of} {total}, {of} {plain}"))
    return w.join(piece, made)


def _by_both_orders(w: Writer, kind: str, type: Type, a: str, b: str) -> str:
    """Return the extreme by an instruction that prefers its second operand, applied in both orders.

    For equal numbers, possibly zeros of two signs, ``and`` of the bits is the larger one and ``or``
    the smaller one; with a NaN all bits are set.
    """
    of, bits = llvm(type), vector(f"i{type.dtype.itemsize * 8}", type.width)
    test = "olt" if kind == "min" else "ogt"
    mask = vector("i1", type.width)
    both = []
    for x, y in ((a, b), (b, a)):
        first = w.let(f"fcmp {test} {of} {x}, {y}")
        chosen = w.let(f"select {mask} {first}, {of} {x}, {of} {y}")
        both.append(w.let(f"bitcast {of} {chosen} to {bits}"))
    combined = w.let(f"{'or' if kind == 'min' else 'and'} {bits} {both[0]}, {both[1]}")
    unordered = w.let(f"fcmp uno {of} {a}, {b}")
    ones = w.let(f"sext {mask} {unordered} to {bits}")
    return w.let(f"bitcast {bits} {w.let(f'or {bits} {combined}, {ones}')} to {of}")
