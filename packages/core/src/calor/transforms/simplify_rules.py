"""Rewriting one node: what constants become, and which nodes change nothing.

Requirements: a rule fires only where the result is the same for every element, −0, infinities and
NaN included, and only for a value of the same spec. Each returns a node in place of the given one,
the number of a value that is there already, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate, pairwise
from math import prod as product
from operator import mul
from types import MappingProxyType
from typing import Final

import numpy as np

from calor.dtypes import DType
from calor.ops import elementwise as e
from calor.ops import movement as m
from calor.ops.base import Op
from calor.ops.reductions import prod
from calor.ops.reductions import sum as total
from calor.ops.sources import constant
from calor.specs import Spec, spec
from calor.transforms.simplify_draft import Array, Draft, Step, evaluate, is_small, source

Rule = Callable[[Draft, Step, Spec], Step | int | None]
Shape = tuple[int, ...]

# Ops that move elements of their first operand, whatever they are.
_MOVES: Final = frozenset({m.expand, m.reshape, m.permute, m.slice_, m.flip, m.dynamic_slice})
# Ops that may make some elements anew.
_JOINS: Final = frozenset({m.concat, m.pad})
_SMALL: Final = _MOVES | _JOINS | {e.cast, e.bitcast, total, prod}
# Ops whose result for an element is one and the same whatever stands beside it: those that IEEE 754
# rounds correctly. Others may differ in the last bit between a vector loop and its remainder.
_EXACT: Final = frozenset(
    {
        *(e.neg, e.add, e.sub, e.mul, e.div, e.maximum, e.minimum, e.abs, e.sign, e.sqrt, e.cast),
        *(e.equal, e.not_equal, e.less, e.less_equal, e.greater, e.greater_equal, e.where),
        *(e.bit_and, e.bit_or, e.bit_xor, e.bit_not, e.shift_left, e.shift_right, e.copysign),
        *(e.isnan, e.isinf, e.isfinite, e.signbit, e.floor, e.ceil, e.trunc, e.round),
        *(e.real, e.imag, e.conj, e.join),
    }
)
_INEXACT_COMPLEX: Final = frozenset({e.mul, e.div, e.abs, e.sign, e.sqrt})


def folded(draft: Draft, step: Step, out: Spec) -> Step | None:
    """Return the source of a node's result when its operands are constants, None where it stays."""
    if not step.inputs:
        return _uniform_constant(step, out)
    first = draft.uniform(step.inputs[0])
    if step.op in _MOVES:
        if first is not None:
            return source(first, out)
    elif step.op in _JOINS:
        if first is not None and _all_are(draft, step.inputs, first):
            return source(first, out)
    elif step.op in _EXACT and first is not None:
        found = _of_elements(draft, step, out, first)
        if found is not None:
            return found
    return _of_small(draft, step, out)


def _uniform_constant(step: Step, out: Spec) -> Step | None:
    if step.op is not constant or out.weak or not is_small(out):
        return None
    better = source(evaluate(constant, [], step.attributes), out)
    return better if better is not None and better.op is not constant else None


def _all_are(draft: Draft, numbers: tuple[int, ...], element: Array) -> bool:
    bits = element.tobytes()
    return all(u is not None and u.tobytes() == bits for u in map(draft.uniform, numbers))


def _of_elements(draft: Draft, step: Step, out: Spec, first: Array) -> Step | None:
    """Fold an elementwise node whose operands each repeat one element, of any size."""
    if first.dtype.kind == "c" and step.op in _INEXACT_COMPLEX:
        return None
    elements = [first]
    for number in step.inputs[1:]:
        element = draft.uniform(number)
        if element is None:
            return None
        elements.append(element)
    return source(evaluate(step.op, elements, step.attributes), out)


def _of_small(draft: Draft, step: Step, out: Spec) -> Step | None:
    """Fold a cheap node of small constants."""
    op = step.op
    elementwise = op.promotion != "none" and op.decompose is None and op.reference is not None
    if not is_small(out) or not (elementwise or op in _SMALL):
        return None
    operands = []
    for number in step.inputs:
        array = draft.small(number)
        if array is None:
            return None
        operands.append(array)
    return source(evaluate(op, operands, step.attributes), out)


def _same(draft: Draft, number: int, out: Spec) -> int | None:
    """Return the value in place of the node when its spec is the same."""
    return number if draft.specs[number] is out else None


def _is_number(draft: Draft, number: int, wanted: int, negative_zero: bool | None = None) -> bool:
    """Return whether a value is a real number everywhere; a floating 0 has the sign asked for."""
    element = draft.uniform(number)
    if element is None or draft.specs[number].dtype.kind not in ("int", "uint", "float"):
        return False
    if element[0] != wanted:
        return False
    floating = draft.specs[number].dtype.kind == "float"
    return negative_zero is None or not floating or bool(np.signbit(element[0])) is negative_zero


# Movement.
def _reshape(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    same = _same(draft, step.inputs[0], out)
    inner = draft.made_by(step.inputs[0], m.reshape)
    if same is not None:
        return same
    if inner is None:
        return _joined_in_order(draft, step)
    return Step(m.reshape, inner.inputs, step.attributes)


def _joined_in_order(draft: Draft, step: Step) -> Step | None:
    """Join parts in the order of axes in which they are read, if the joined value is copied else.

    That is so where a reshape merges axes that a permutation has separated.
    """
    moved = draft.made_by(step.inputs[0], m.permute)
    joined = None if moved is None else draft.made_by(moved.inputs[0], m.concat)
    if moved is None or joined is None:
        return None
    axes, whole = moved.attributes["axes"], draft.specs[moved.inputs[0]]
    if _is_view(whole.shape, axes, step.attributes["shape"]):
        return None
    parts: list[int] = []
    for number in joined.inputs:
        part = draft.specs[number]
        turned = spec(tuple([part.shape[a] for a in axes]), part.dtype)
        parts += draft.add(Step(m.permute, (number,), {"axes": axes}), [turned])
    axis = axes.index(joined.attributes["axis"])
    result = spec(tuple([whole.shape[a] for a in axes]), whole.dtype)
    (made,) = draft.add(Step(m.concat, tuple(parts), {"axis": axis}), [result])
    return Step(m.reshape, (made,), step.attributes)


def _is_view(shape: Shape, axes: Shape, wanted: Shape) -> bool:
    """Return whether a reshape of a permuted dense array needs no copy."""
    steps = [product(shape[a + 1 :]) for a in axes]
    order = [(shape[a], step) for a, step in zip(axes, steps, strict=True) if shape[a] != 1]
    counts = accumulate([n for n, _ in order], mul)
    apart = {n for n, (a, b) in zip(counts, pairwise(order), strict=False) if a[1] != b[0] * b[1]}
    return apart <= set(accumulate(wanted, mul))


def _expand(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    same = _same(draft, step.inputs[0], out)
    inner = draft.made_by(step.inputs[0], m.expand)
    if same is not None or inner is None:
        return same
    return Step(m.expand, inner.inputs, step.attributes)


def _permute(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    axes = step.attributes["axes"]
    if axes == tuple(range(len(axes))):
        return _same(draft, step.inputs[0], out)
    inner = draft.made_by(step.inputs[0], m.permute)
    if inner is None:
        return None
    first = inner.attributes["axes"]
    return Step(m.permute, inner.inputs, {"axes": tuple([first[a] for a in axes])})


def _slice(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    # Forward and of the same size, it takes every element.
    forward = all(s > 0 for s in step.attributes["steps"])
    return _same(draft, step.inputs[0], out) if forward else None


def _flip(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    inner = draft.made_by(step.inputs[0], m.flip)
    if inner is not None and set(inner.attributes["axes"]) == set(step.attributes["axes"]):
        return _same(draft, inner.inputs[0], out)
    return None if step.attributes["axes"] else _same(draft, step.inputs[0], out)


def _concat(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    return _same(draft, step.inputs[0], out) if len(step.inputs) == 1 else None


def _pad(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    # Padding by nothing: spacing that adds no element is between fewer than two.
    same = _same(draft, step.inputs[0], out)
    inner = draft.made_by(step.inputs[0], m.pad)
    spaced = any(step.attributes["interior"])
    if same is not None or inner is None or inner.inputs[1] != step.inputs[1] or spaced:
        return same
    sums = {
        side: tuple(
            [a + b for a, b in zip(step.attributes[side], inner.attributes[side], strict=True)]
        )
        for side in ("low", "high")
    }
    return Step(m.pad, inner.inputs, {**sums, "interior": inner.attributes["interior"]})


def _dynamic_slice(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    x, starts = step.inputs
    sizes, shape = step.attributes["sizes"], draft.specs[x].shape
    if sizes == shape:
        return _same(draft, x, out)
    known = draft.small(starts)
    if known is None:
        return None
    places = zip(known, shape, sizes, strict=True)
    first = tuple([min(max(int(s), 0), n - size) for s, n, size in places])
    last = tuple([s + size for s, size in zip(first, sizes, strict=True)])
    return Step(m.slice_, (x,), {"starts": first, "stops": last, "steps": (1,) * len(sizes)})


# Arithmetic. Complex products are not among them: (a + bi) · 1 computes b · 0.
def _mul(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    a, b = step.inputs
    if _is_number(draft, b, 1):
        return _same(draft, a, out)
    return _same(draft, b, out) if _is_number(draft, a, 1) else None


def _div(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    return _same(draft, step.inputs[0], out) if _is_number(draft, step.inputs[1], 1) else None


def _floor_divide(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    return _div(draft, step, out) if out.dtype.is_integer else None


def _add(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    # −0 + 0 is 0, but any number plus −0 is itself.
    a, b = step.inputs
    if _is_number(draft, b, 0, negative_zero=True):
        return _same(draft, a, out)
    return _same(draft, b, out) if _is_number(draft, a, 0, negative_zero=True) else None


def _sub(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    a, b = step.inputs
    return _same(draft, a, out) if _is_number(draft, b, 0, negative_zero=False) else None


def _where(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    condition, a, b = step.inputs
    if a == b:
        return _same(draft, a, out)
    known = draft.uniform(condition)
    return None if known is None else _same(draft, a if known[0] else b, out)


def _involution(op: Op) -> Rule:
    def rule(draft: Draft, step: Step, out: Spec) -> Step | int | None:
        inner = draft.made_by(step.inputs[0], op)
        return None if inner is None else _same(draft, inner.inputs[0], out)

    return rule


def _conj_of_real(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    return None if out.dtype.is_complex else _same(draft, step.inputs[0], out)


# Conversions.
# Significant bits of the floating types, and those that hold all numbers of the narrower ones.
_DIGITS: Final[Mapping[str, int]] = MappingProxyType(
    {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
)
_HOLDERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "float8_e4m3fn": ("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
        "float8_e5m2": ("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
        "float16": ("float32", "float64", "complex64", "complex128"),
        "bfloat16": ("float32", "float64", "complex64", "complex128"),
        "float32": ("float64", "complex64", "complex128"),
        "float64": ("complex128",),
        "complex64": ("complex128",),
        "complex128": (),
    }
)


def _holds(wide: DType, narrow: DType) -> bool:
    """Return whether each number of ``narrow``, infinities and −0 too, is one of ``wide``."""
    if narrow.kind == "bool":
        return True
    holders = _HOLDERS.get(narrow.name)
    if holders is not None:
        return wide.name in holders
    bits: int = 8 * narrow.itemsize - (narrow.kind == "int")
    if wide.is_integer:
        room: int = 8 * wide.itemsize - (wide.kind == "int")
        return bits <= room and (wide.kind == "int" or narrow.kind == "uint")
    # An integer of so few digits is within the range of each of these.
    part = {"complex64": "float32", "complex128": "float64"}.get(wide.name, wide.name)
    return bits <= _DIGITS.get(part, 0)


def _cast(draft: Draft, step: Step, out: Spec) -> Step | int | None:
    same = _same(draft, step.inputs[0], out)
    inner = draft.made_by(step.inputs[0], e.cast)
    if same is not None or inner is None:
        return same
    origin = draft.specs[inner.inputs[0]].dtype
    if origin is not out.dtype or not _holds(inner.attributes["dtype"], origin):
        return None
    found = _same(draft, inner.inputs[0], out)
    return Step(e.cast, inner.inputs, step.attributes) if found is None else found


RULES: Final[Mapping[str, tuple[Rule, ...]]] = MappingProxyType(
    {
        "reshape": (_reshape,),
        "expand": (_expand,),
        "permute": (_permute,),
        "slice": (_slice,),
        "flip": (_flip,),
        "concat": (_concat,),
        "pad": (_pad,),
        "dynamic_slice": (_dynamic_slice,),
        "mul": (_mul,),
        "div": (_div,),
        "floor_divide": (_floor_divide,),
        "add": (_add,),
        "sub": (_sub,),
        "where": (_where,),
        "neg": (_involution(e.neg),),
        "bit_not": (_involution(e.bit_not),),
        "conj": (_conj_of_real, _involution(e.conj)),
        "cast": (_cast,),
    }
)
