"""How the public functions take their arguments: tensors, numbers, host arrays, axes.

Requirements: Python numbers stay numbers until they are recorded (weak, and inputs of the plan);
axes reach the rows normalised, non-negative and without duplicates, and a wrong one is reported
with the shape that it does not fit.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from calor import dtypes
from calor.dtypes import DType
from calor.errors import AxisError, DTypeError, ShapeError
from calor.graph.recipes import common_dtype as common_type_of
from calor.graph.record import binary, elementwise, number_on, unary, weak_spec
from calor.graph.trace import Handle
from calor.ops import elementwise as e
from calor.ops.base import Op
from calor.ops.movement import expand
from calor.tensor.operators import mixed

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor

# Every Handle is a Tensor; the Tensor's own mixins see themselves as Handles.
Operand: TypeAlias = "Handle | complex | np.ndarray[Any, Any] | np.generic"
Axis: TypeAlias = "int | tuple[int, ...] | None"

_NUMBERS = (bool, int, float, complex)
_HOST = (*_NUMBERS, np.ndarray, np.generic)


def as_tensor(x: Any, like: Tensor | None = None) -> Tensor:
    """Return a tensor for a tensor, number or host array; on the device of ``like``.

    Raises DTypeError for anything else (lists: their conversion should be visible).
    """
    if isinstance(x, Handle):
        return x  # type: ignore[return-value]
    if isinstance(x, _HOST):
        from calor.functions.creation import asarray

        return asarray(x, device=None if like is None else like.device)
    raise _foreign(x)


def _foreign(x: Any) -> DTypeError:
    return DTypeError(
        f"an operand is a {type(x).__name__}; operands are tensors, numbers and NumPy arrays: "
        f"convert it with calor.asarray(...)"
    )


def single(row: Op, x: Any) -> Tensor:
    """Record an elementwise op of one operand."""
    made: Tensor = unary(row, x if isinstance(x, Handle) else as_tensor(x))
    return made


def pair(row: Op, x1: Any, x2: Any) -> Tensor:
    """Record an elementwise op of two operands, of which either may be a number."""
    made: Any
    if isinstance(x1, Handle):
        made = binary(row, x1, x2) if isinstance(x2, Handle) else mixed(row, x1, x2, False)
    elif isinstance(x2, Handle):
        made = mixed(row, x2, x1, True)
    else:
        made = binary(row, as_tensor(x1), as_tensor(x2))
    if made is NotImplemented:
        raise _foreign(x1 if isinstance(x2, Handle) else x2)
    return made  # type: ignore[no-any-return]


def several(row: Op, *operands: Any) -> Tensor:
    """Record an elementwise op of any number of operands, of which each may be a number."""
    given = [python_number(x) for x in operands]
    first: Any = next((x for x in given if isinstance(x, Handle)), None)
    if first is None:
        given[0] = first = as_tensor(given[0])
    given = [x if isinstance(x, _NUMBERS) else as_tensor(x, first) for x in given]
    if any(isinstance(x, _NUMBERS) for x in given):
        # Numbers are handed over in the dtype that the op computes in; no cast is recorded.
        specs = [weak_spec(x) if isinstance(x, _NUMBERS) else x._value.spec for x in given]
        dtype = common_type_of(row, specs)
        given = [number_on(x, dtype, first.device) if isinstance(x, _NUMBERS) else x for x in given]
    made: Tensor = elementwise(row, tuple(given))
    return made


def truth(x: Any) -> Any:
    """Return a bool operand: numbers are true when they are not 0."""
    if isinstance(x, _NUMBERS):
        return bool(x)
    x = as_tensor(x)
    return x if x.dtype is dtypes.bool_ else e.cast(x, dtype=dtypes.bool_)


def select(condition: Any, x1: Any, x2: Any) -> Tensor:
    """Record ``where``: x1 where the condition holds, x2 elsewhere; both may be numbers."""
    condition = as_tensor(truth(condition))
    a, b = python_number(x1), python_number(x2)
    if isinstance(a, _NUMBERS) and isinstance(b, _NUMBERS):
        common = dtypes.promote(dtypes.as_dtype(type(a)), dtypes.as_dtype(type(b)))
    elif isinstance(a, _NUMBERS):
        common = dtypes.promote_weak(as_tensor(b).dtype, weak_spec(a).dtype)
    elif isinstance(b, _NUMBERS):
        common = dtypes.promote_weak(as_tensor(a).dtype, weak_spec(b).dtype)
    operands = [
        number_on(t, common, condition.device)
        if isinstance(t, _NUMBERS)
        else as_tensor(t, condition)
        for t in (a, b)
    ]
    made: Tensor = elementwise(e.where, (condition, *operands))
    return made


def python_number(x: Any) -> Any:
    """Return a Python number for a NumPy scalar or a subclass of one; anything else as it is."""
    if isinstance(x, np.generic):
        number = x.item()
        return number if type(number) in _NUMBERS else np.asarray(x)
    if type(x) in _NUMBERS or not isinstance(x, _NUMBERS):
        return x
    kinds: tuple[Any, ...] = (int, float, complex)
    return next(kind(x) for kind in kinds if isinstance(x, kind))


def together(tensors: Sequence[Any], what: str) -> list[Tensor]:
    """Return operands as tensors of their common dtype; DTypeError when there is none."""
    made = [as_tensor(t) for t in tensors]
    common = common_dtype([t.dtype for t in made], what)
    return [t if t.dtype is common else e.cast(t, dtype=common) for t in made]


def common_dtype(types: Sequence[DType], what: str) -> DType:
    """Return the common type of several dtypes; DTypeError names the function."""
    common = types[0]
    try:
        for t in types[1:]:
            common = dtypes.promote(common, t)
    except DTypeError as error:
        raise DTypeError(f"{what}: {error}") from None
    return common


def integer(value: Any, what: str) -> int:
    """Return a whole number given as an int or NumPy integer; TypeError for anything else."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be a whole number, not {type(value).__name__}") from None


def one_axis(axis: Any, shape: tuple[int, ...], what: str) -> int:
    """Return an axis as a non-negative number; AxisError when the shape does not have it."""
    number = axis if type(axis) is int else integer(axis, f"{what}: axis")
    ndim = len(shape)
    if not -ndim <= number < ndim:
        raise AxisError(f"{what}: axis {number} does not fit shape {shape}, which has {ndim} axes")
    return number % ndim


def many_axes(axis: Any, shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    """Return axes as ascending non-negative numbers; None is all of them."""
    if axis is None:
        return tuple(range(len(shape)))
    if type(axis) is int:
        return (one_axis(axis, shape, what),)
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = sorted(one_axis(a, shape, what) for a in given)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{what}: axis {axis} names an axis of shape {shape} twice")
    return tuple(axes)


def sizes_of(shape: Any, what: str) -> tuple[int, ...]:
    """Return a shape given as an int or a sequence of ints."""
    if isinstance(shape, tuple | list):
        return tuple([integer(n, f"{what}: a size") for n in shape])
    return (integer(shape, f"{what}: a shape"),)


def stretched(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return x broadcast to a shape; x itself when it has it."""
    made: Tensor = x if x.shape == shape else expand(x, shape=shape)
    return made
