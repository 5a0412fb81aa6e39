"""Recording: how an operation on tensors becomes nodes of the pending trace.

Requirements: this is the hottest Python of calor, about a microsecond an op, so the paths of one
and two operands are written flat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from calor import dtypes
from calor.backends.device import Device
from calor.device_selection import current_device
from calor.graph.op import Op
from calor.interning import remember
from calor.local import local
from calor.recording.codes import leaf
from calor.recording.recipes import (
    Recipe,
    attributed_recipe,
    by_default,
    elementwise_recipe,
    recalled_recipe,
)
from calor.recording.records import link
from calor.recording.trace import pending, trace_on
from calor.specs import Spec, spec
from calor.tensor.count import Count
from calor.tensor.tensor import Tensor, wrap
from calor.tensor.values import Handle, Value

_new = object.__new__


def unary(row: Op, x: Handle) -> Any:
    """Record an elementwise op of one tensor without attributes."""
    value = x._value
    recipe = row.memo.get(value.spec)
    if recipe is None:
        recipe = recalled_recipe(row, (value.spec,), value.spec)
    if not recipe.plain or x._record is not None:
        return recorded(recipe, (x,))
    trace = local.trace
    if value.device is not trace.device:
        trace = trace_on(value.device)
    if value.trace is trace:
        operand = value.position
    else:
        operand = trace.leaves.get(value, -1)
        if operand < 0:
            operand = trace.attach(x)
    position = trace.count
    trace.codes += (recipe.signature, position - operand)
    trace.count = position + 1
    out: Value = _new(Value)
    out.spec = recipe.out
    out.device = trace.device
    out.trace = trace
    out.position = position
    out.buffer = None
    trace.values.append(out)
    tensor = _new(Tensor)
    tensor._value = out
    tensor._record = None
    tensor._grad = None
    tensor._view = None
    trace.room -= recipe.cost
    if trace.room < 0:
        trace.overflow(recipe.signature)
    return tensor


def binary(row: Op, a: Handle, b: Handle) -> Any:
    """Record an elementwise op of two tensors without attributes."""
    va = a._value
    vb = b._value
    key = (va.spec, vb.spec)
    recipe = row.memo.get(key)
    if recipe is None:
        recipe = recalled_recipe(row, key, key)
    trace = local.trace
    if va.device is not trace.device:
        trace = trace_on(va.device)
    if va.trace is trace:
        pa = va.position
    else:
        pa = trace.leaves.get(va, -1)
        if pa < 0:
            pa = trace.attach(a)
    if vb.trace is trace:
        pb = vb.position
    else:
        pb = trace.leaves.get(vb, -1)
        if pb < 0:
            pb = trace.attach(b)
    position = trace.count
    if not recipe.plain:
        # The casts and expands of each operand come first, one node each.
        codes = trace.codes
        left, right = recipe.prologues
        for step in left:
            codes += (step, position - pa)
            pa = position
            position += 1
        for step in right:
            codes += (step, position - pb)
            pb = position
            position += 1
    trace.codes += (recipe.signature, position - pa, position - pb)
    trace.count = position + 1
    out: Value = _new(Value)
    out.spec = recipe.out
    out.device = trace.device
    out.trace = trace
    out.position = position
    out.buffer = None
    trace.values.append(out)
    tensor = _new(Tensor)
    tensor._value = out
    tensor._grad = None
    tensor._view = None
    if (a._record is None and b._record is None) or not local.grad_enabled:
        tensor._record = None
    else:
        tensor._record = link(recipe, (a, b), out)
    trace.room -= recipe.cost
    if trace.room < 0:
        trace.overflow(recipe.signature)
    return tensor


def elementwise(row: Op, operands: tuple[Handle, ...]) -> Any:
    """Record an elementwise op of several tensors without attributes (``where`` has three)."""
    key = tuple([h._value.spec for h in operands])
    recipe = row.memo.get(key)
    if recipe is None:
        recipe = recalled_recipe(row, key, key)
    return recorded(recipe, operands)


def recorded(recipe: Recipe, operands: Sequence[Handle]) -> Any:
    """Record a recipe with one output: casts and expands, the op, and its gradient record."""
    first = operands[0]._value.device
    trace = local.trace
    if first is not trace.device:
        trace = trace_on(first)
    positions = [
        h._value.position if h._value.trace is trace else trace.attach(h) for h in operands
    ]
    codes = trace.codes
    position = trace.count
    if not recipe.plain:
        for i, steps in enumerate(recipe.prologues):
            for step in steps:
                codes += (step, position - positions[i])
                positions[i] = position
                position += 1
    codes.append(recipe.signature)
    for p in positions:
        codes.append(position - p)
    trace.count = position + 1
    out = pending(trace, recipe.out, position)
    tensor = _new(Tensor)
    tensor._value = out
    tensor._grad = None
    tensor._view = None
    tensor._record = None
    if local.grad_enabled:
        for h in operands:
            if h._record is not None:
                tensor._record = link(recipe, operands, out)
                break
    trace.room -= recipe.cost
    if trace.room < 0:
        trace.overflow(recipe.signature)
    return tensor


def apply(row: Op, *operands: Handle, **attributes: Any) -> Any:
    """Record an op whose operands already agree; return its tensor, or the tuple of them."""
    specs = tuple([h._value.spec for h in operands])
    if (
        row.decompose is not None
        and (row.vjp is None or row.keeps is not None)
        and local.grad_enabled
        and any(h._record is not None for h in operands)
    ):
        if row.keeps is not None:
            return _recorded_with_kept(row, operands, specs, attributes)
        # A kept composite without a gradient of its own is differentiated through its definition.
        return row.decompose(*operands, **attributes)
    recipe = row.memo.get((specs, *attributes.items()))
    if recipe is None:
        recipe = attributed_recipe(row, specs, attributes)
    else:
        # Found by ==, which does not tell 0.0 from −0.0 or 1 from True; nearly always it is right.
        for name in recipe.integers:
            for item in attributes[name]:
                if type(item) is not int:
                    recipe = attributed_recipe(row, specs, attributes)
        for name, test in recipe.tests:
            if not test(attributes[name]):
                recipe = attributed_recipe(row, specs, attributes)
    if not operands:
        return _source(recipe)
    if recipe.many:
        return _record_many(recipe, operands)
    return recorded(recipe, operands)


def _source(recipe: Recipe) -> Any:
    """Record a node without operands on the current default device."""
    trace = trace_on(current_device())
    if 0 <= trace.room < trace.small:
        trace.fall_due()
    position = trace.count
    trace.codes.append(recipe.signature)
    trace.count = position + 1
    tensor = wrap(pending(trace, recipe.out, position))
    trace.room -= recipe.cost
    if trace.room < 0:
        trace.overflow(recipe.signature)
    return tensor


def _recorded_with_kept(
    row: Op, operands: Sequence[Handle], specs: tuple[Spec, ...], attributes: dict[str, Any]
) -> Any:
    """Record a composite with what its gradient alone reads, and return its other results."""
    assert row.keeps is not None
    count = len(attributed_recipe(row, specs, attributes).signature.outputs)
    recipe = attributed_recipe(row, specs, row.keeps(attributes, *specs))
    made = _record_many(recipe, operands)
    return made[:count] if count > 1 else made[0]


def _record_many(recipe: Recipe, operands: Sequence[Handle]) -> tuple[Any, ...]:
    trace = trace_on(operands[0]._value.device)
    positions = [
        h._value.position if h._value.trace is trace else trace.attach(h) for h in operands
    ]
    position = trace.count
    outputs = recipe.signature.outputs
    # Distances are taken from the first output, as when the node has one.
    trace.codes += (recipe.signature, *[position - p for p in positions])
    trace.count = position + len(outputs)
    values = [pending(trace, s, position + i) for i, s in enumerate(outputs)]
    records: Sequence[Any] = [None] * len(values)
    if local.grad_enabled and any(h._record is not None for h in operands):
        records = link(recipe, operands, values) or records
    tensors = tuple(wrap(v, r) for v, r in zip(values, records, strict=True))
    trace.room -= recipe.cost
    if trace.room < 0:
        trace.overflow(recipe.signature)
    return tensors


def host(number: Any, spec_: Spec, device: Device) -> Any:
    """Record a host number or small host array as an input that is handed over at each call."""
    trace = trace_on(device)
    if trace.jit:
        return local.jit[-1].constant(number, spec_)
    position = trace.add_input(number, spec_, True)
    return wrap(pending(trace, spec_, position))


def number_on(number: Any, dtype: dtypes.DType, device: Device) -> Any:
    """Record a Python number as a 0-d input of a dtype; OverflowError when it does not fit."""
    target = spec((), dtype)
    return host(_checked(number, target), target, device)


def weak_spec(number: Any) -> Spec:
    """Return the weak spec of a Python number: float64, int64 and complex128 carry it exactly."""
    kind = type(number)
    if kind is float:
        return _WEAK_FLOAT
    if kind is bool:
        return _BOOL
    if kind is int or kind is Count:
        return _WEAK_INT
    if kind is complex:
        return _WEAK_COMPLEX
    raise TypeError(f"{kind.__name__} is not a Python number")


_WEAK_FLOAT: Final = spec((), dtypes.float64, True)
_WEAK_INT: Final = spec((), dtypes.int64, True)
_WEAK_COMPLEX: Final = spec((), dtypes.complex128, True)
_BOOL: Final = spec((), dtypes.bool_, True)


class _NumberEntry:
    """What recording a tensor with a Python number needs, worked out once per spec and kind."""

    __slots__ = ("expand", "leaf", "recipe", "spec")

    def __init__(self, row: Op, x: Spec, weak: Spec, reverse: bool) -> None:
        pair = (weak, x) if reverse else (x, weak)
        self.recipe = elementwise_recipe(row, pair)
        wanted = self.recipe.signature.inputs[0]
        # The number is handed over in the type that the op computes in; no cast is recorded.
        self.spec = spec((), wanted.dtype, x.weak)
        pair = (self.spec, x) if reverse else (x, self.spec)
        self.recipe = elementwise_recipe(row, pair)
        self.leaf = leaf(self.spec, True)
        prologues = self.recipe.prologues
        number, other = prologues if reverse else prologues[::-1]
        self.expand = number[0] if len(number) == 1 and not other else None


def _number_entry(row: Op, x: Spec, weak: Spec, reverse: bool, key: Any) -> _NumberEntry:
    """Return what the memo of an op does not have under a key, and remember it."""
    if by_default(row, (x, weak)):
        key = (key, local.floating)
        found: _NumberEntry | None = row.memo.get(key)
        if found is not None:
            return found
    entry = _NumberEntry(row, x, weak, reverse)
    remember(row.memo, key, entry)
    return entry


def binary_number(row: Op, x: Handle, number: Any, reverse: bool) -> Any:
    """Record an elementwise op of a tensor and a Python number; ``reverse`` puts the number first.

    The number is an input of the plan, so another number makes no other plan.
    """
    value = x._value
    key = (value.spec, type(number), reverse)
    entry = row.memo.get(key)
    if entry is None:
        entry = _number_entry(row, value.spec, weak_spec(number), reverse, key)
    trace = local.trace
    if value.device is not trace.device:
        trace = trace_on(value.device)
    if trace.jit or x._record is not None or entry.expand is None:
        other = host(_checked(number, entry.spec), entry.spec, value.device)
        return recorded(entry.recipe, (other, x) if reverse else (x, other))
    if type(number) is int:
        _checked(number, entry.spec)
    px = value.position if value.trace is trace else trace.attach(x)
    position = trace.count
    recipe = entry.recipe
    trace.inputs.append(number)
    if reverse:
        trace.codes += (entry.leaf, entry.expand, 1, recipe.signature, 1, position + 2 - px)
    else:
        trace.codes += (entry.leaf, entry.expand, 1, recipe.signature, position + 2 - px, 1)
    trace.count = position + 3
    tensor = wrap(pending(trace, recipe.out, position + 2))
    trace.room -= recipe.cost
    if trace.room < 0:
        trace.overflow(recipe.signature)
    return tensor


def _checked(number: Any, target: Spec) -> Any:
    """Return the number; OverflowError when an integer type cannot hold it."""
    if isinstance(number, int) and target.dtype.is_integer:
        info = np.iinfo(target.dtype.numpy)
        if not info.min <= number <= info.max:
            raise OverflowError(
                f"the Python number {number} does not fit {target.dtype.name} "
                f"({info.min} … {info.max}); cast the tensor to a wider type first"
            )
    return number
