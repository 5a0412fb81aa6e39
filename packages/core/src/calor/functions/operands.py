"""How the public functions and operators take operands: tensors, numbers and host arrays.

Requirements: Python numbers stay numbers until they are recorded (weak, and inputs of the plan).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np

from calor import dtypes
from calor.backends.device import Device
from calor.dtypes import DType
from calor.errors import DTypeError
from calor.functions.arguments import NUMBERS, common_dtype, python_number
from calor.functions.creation import asarray
from calor.local import local
from calor.ops import elementwise as e
from calor.ops.base import Op
from calor.ops.movement import expand
from calor.ops.sources import sized_number
from calor.recording.recipes import common_dtype as computing_dtype
from calor.recording.record import binary, binary_number, elementwise, number_on, unary, weak_spec
from calor.recording.records import Leaf
from calor.sizes import hint_of, is_size
from calor.specs import spec
from calor.tensor.tensor import Tensor
from calor.tensor.values import Handle, is_weak

_HOST = (*NUMBERS, np.ndarray, np.generic)
_PLAIN = frozenset(NUMBERS)


def as_tensor(x: Any, like: Tensor | None = None, name: str = "") -> Tensor:
    """Return a tensor for a tensor, number or host array; on the device of ``like``.

    Raises DTypeError for anything else (lists: their conversion should be visible), which begins
    with the name of the op if there is one.
    """
    if isinstance(x, Handle):
        return asarray(x) if x._value.spec.weak else x  # type: ignore[return-value]
    if isinstance(x, _HOST):
        return asarray(x, device=None if like is None else like.device)
    raise _foreign(x, name)


def first_tensor(*operands: Any) -> Tensor | None:
    """Return the first operand that is a tensor, whose device is that of the others."""
    for x in operands:
        if isinstance(x, Handle):
            return x  # type: ignore[return-value]
    return None


def as_tensors(*operands: Any) -> list[Tensor]:
    """Return tensors for tensors, numbers and host arrays; these on the device of the first tensor.

    Without a tensor all are on the current device. DTypeError as :func:`as_tensor`.
    """
    like = first_tensor(*operands)
    return [as_tensor(x, like) for x in operands]


def as_operands(*operands: Any, floating: bool = False) -> list[Tensor]:
    """Return the operands of one operation as tensors; numbers in the dtype they get beside others.

    As with operators, a number of a higher kind brings its default dtype, and OverflowError says
    that an integer does not fit; of a floating operation numbers are floating. DTypeError for
    float8, which has no operations.
    """
    given = [python_number(x) for x in operands]
    like = first_tensor(*given)
    strong = [as_tensor(x, like) for x in given if not _is_number(x)]
    if not strong or len(strong) == len(given):
        return strong or as_tensors(*given)
    common = common_dtype([t.dtype for t in strong], "an operation")
    for x in filter(_is_number, given):
        weak = x._value.spec if isinstance(x, Handle) else weak_spec(x)
        common = dtypes.promote_weak(common, weak.dtype)
    if floating and not common.is_inexact:
        common = dtypes.default_float()
    rest = iter(strong)
    device = strong[0].device
    return [_as(x, common, device) if _is_number(x) else next(rest) for x in given]


def _is_number(x: Any) -> bool:
    """Return whether an operand is a number, of Python or of a trace."""
    return isinstance(x, NUMBERS) or is_weak(x)


def _as(number: Any, dtype: DType, device: Device) -> Tensor:
    made: Tensor = (
        e.cast(number, dtype=dtype)
        if isinstance(number, Handle)
        else number_on(number, dtype, device)
    )
    return made


def placed(*operands: Any) -> tuple[Any, ...]:
    """Return operands with the host arrays beside a tensor on its device; numbers stay numbers."""
    like = first_tensor(*operands)
    if like is None:
        return operands
    return tuple(as_tensor(x, like) if isinstance(x, np.ndarray) else x for x in operands)


def _foreign(x: Any, name: str = "") -> DTypeError:
    of = f"{name}: " if name else ""
    return DTypeError(
        f"{of}an operand is a {type(x).__name__}; operands are tensors, numbers and NumPy arrays: "
        f"convert it with calor.asarray(...)"
    )


def lowered(x: Any) -> Any:
    """Return a factor of a product in the low type of autocast, where that is on."""
    low = local.autocast
    if low is None:
        return x
    x = as_tensor(x)
    dtype = x.dtype
    if dtype is low or dtype.kind != "float" or dtype.itemsize > 4:
        return x
    record = x._record
    if type(record) is Leaf and record.tensor is not None and not local.jit:
        return _cast_once(x, low)
    return e.cast(x, dtype=low)


def _cast_once(leaf: Tensor, low: DType) -> Tensor:
    """Return a leaf in a low type: the cast of before, if it has not changed since.

    Its value is held, so that no program writes over it in place; a leaf with another value is cast
    again. In a trace, equal casts are one anyway.
    """
    mode = low, local.grad_enabled
    known = local.casts.get(id(leaf))
    if known is not None:
        same, value, record, kept, cast = known
        if same() is leaf and value is leaf._value and record is leaf._record and kept == mode:
            return cast  # type: ignore[no-any-return]
    made: Tensor = e.cast(leaf, dtype=low)
    local.casts[id(leaf)] = ref(leaf), leaf._value, leaf._record, mode, made
    return made


def prepared(row: Op, x: Any) -> Any:
    """Return an operand of a row as autocast wants it: half types as float32, for some rows."""
    if row.autocast == "float32" and local.autocast is not None:
        x = as_tensor(x)
        if x.dtype.kind == "float" and x.dtype.itemsize == 2:
            return e.cast(x, dtype=dtypes.float32)
    return x


def any_complex(*operands: Any) -> bool:
    """Return whether an operand is complex."""
    return any(
        t._value.spec.dtype.is_complex
        if isinstance(t, Handle)
        else isinstance(t, complex)
        or (isinstance(t, np.ndarray | np.generic) and t.dtype.kind == "c")
        for t in operands
    )


def single(row: Op, x: Any) -> Tensor:
    """Record an elementwise op of one operand."""
    if row.autocast:
        x = prepared(row, x)
    if not isinstance(x, Handle) or x._value.spec.weak:
        x = as_tensor(x, name=row.name)
    made: Tensor = unary(row, x)
    return made


def prepared_pair(row: Op, x1: Any, x2: Any) -> tuple[Any, Any]:
    """Return two operands as autocast wants them; Python numbers stay numbers."""
    made = [prepared(row, x) if isinstance(x, Handle) else x for x in (x1, x2)]
    return made[0], made[1]


def pair(row: Op, x1: Any, x2: Any) -> Tensor:
    """Record an elementwise op of two operands, of which either may be a number."""
    made: Any
    if row.autocast:
        x1, x2 = prepared_pair(row, x1, x2)
    if isinstance(x1, Handle):
        made = binary(row, x1, x2) if isinstance(x2, Handle) else mixed(row, x1, x2, False)
    elif isinstance(x2, Handle):
        made = mixed(row, x2, x1, True)
    else:
        made = binary(row, as_tensor(x1, name=row.name), as_tensor(x2, name=row.name))
    if made is NotImplemented:
        raise _foreign(x1 if isinstance(x2, Handle) else x2, row.name)
    # Of two traced numbers a function makes a tensor, where an operator makes a number.
    return as_tensor(made) if made._value.spec.weak else made


def several(row: Op, *operands: Any) -> Tensor:
    """Record an elementwise op of any number of operands, of which each may be a number."""
    given = [python_number(x) for x in operands]
    first = first_tensor(*given)
    if first is None:
        given[0] = first = as_tensor(given[0])
    given = [x if isinstance(x, NUMBERS) or is_weak(x) else as_tensor(x, first) for x in given]
    if any(isinstance(x, NUMBERS) for x in given):
        # Numbers are handed over in the dtype that the op computes in; no cast is recorded.
        specs = [weak_spec(x) if isinstance(x, NUMBERS) else x._value.spec for x in given]
        dtype = computing_dtype(row, specs)
        given = [number_on(x, dtype, first.device) if isinstance(x, NUMBERS) else x for x in given]
    made: Tensor = elementwise(row, tuple(given))
    return as_tensor(made)


def truth(x: Any) -> Any:
    """Return a bool operand: numbers are true when they are not 0."""
    if isinstance(x, NUMBERS):
        return bool(x)
    x = as_tensor(x)
    return x if x.dtype is dtypes.bool_ else e.cast(x, dtype=dtypes.bool_)


def select(condition: Any, x1: Any, x2: Any) -> Tensor:
    """Record ``where``: x1 where the condition holds, x2 elsewhere; both may be numbers."""
    handles = isinstance(x1, Handle) and isinstance(x2, Handle) and isinstance(condition, Handle)
    if handles and not (x1._value.spec.weak or x2._value.spec.weak):
        # What has no number to convert is asked most.
        return _chosen(truth(condition), x1, x2)
    given = [python_number(x1), python_number(x2)]
    like = first_tensor(condition, *given)
    known = truth(condition) if isinstance(condition, NUMBERS) else condition
    condition = truth(as_tensor(known, like))
    given = [x if isinstance(x, NUMBERS) or is_weak(x) else as_tensor(x, condition) for x in given]
    specs = [weak_spec(x) if isinstance(x, NUMBERS) else x._value.spec for x in given]
    common = computing_dtype(e.where, [condition._value.spec, *specs])
    if all(s.weak for s in specs):
        common = dtypes.default_of(common)
        given = [e.cast(x, dtype=common) if isinstance(x, Handle) else x for x in given]
    x1, x2 = (
        number_on(x, common, condition.device) if isinstance(x, NUMBERS) else x for x in given
    )
    return _chosen(condition, x1, x2)


def _chosen(condition: Tensor, x1: Any, x2: Any) -> Tensor:
    made: Tensor = elementwise(e.where, (condition, x1, x2))
    return made


def together(tensors: Sequence[Any], what: str) -> list[Tensor]:
    """Return operands as tensors of their common dtype; DTypeError when there is none."""
    made = as_tensors(*tensors)
    common = common_dtype([t.dtype for t in made], what)
    return [t if t.dtype is common else e.cast(t, dtype=common) for t in made]


def stretched(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return x broadcast to a shape; x itself when it has it."""
    if x.shape == shape:
        return x
    # The sizes of a spec are plain numbers: ``x.size`` is none, and no graph holds it.
    made: Tensor = expand(x, shape=spec(shape, x.dtype).shape)
    return made


def mixed(row: Op, x: Any, other: Any, reverse: bool) -> Any:
    """Record a binary op of a tensor with what is no plain tensor; NotImplemented if foreign."""
    if type(other) in _PLAIN:
        return binary_number(row, x, other, reverse)
    if isinstance(other, Handle):
        return binary(row, other, x) if reverse else binary(row, x, other)
    if isinstance(other, np.generic):
        number = other.item()
        if type(number) in _PLAIN:
            return binary_number(row, x, number, reverse)
        other = np.asarray(other)
    if isinstance(other, int | float | complex):
        plain: Any = complex(other) if isinstance(other, complex) else other.real
        kind: Any = (
            float if isinstance(other, float) else int if isinstance(other, int) else complex
        )
        return binary_number(row, x, kind(plain), reverse)
    made = sized(row, other, x) if is_size(other) else from_host(other, x)
    if made is None:
        return NotImplemented
    return binary(row, made, x) if reverse else binary(row, x, made)


def sized(row: Op, size: Any, x: Any) -> Any:
    """Return a symbolic size as an operand in the dtype in which an op computes with x."""
    dtype = computing_dtype(row, [x._value.spec, weak_spec(hint_of(size))])
    if dtype.is_integer:
        known = np.iinfo(dtype.numpy)
        if not known.min <= size <= known.max:
            raise OverflowError(f"{row.name}: a size of {hint_of(size)} does not fit {dtype.name}")
    with x.device:
        return sized_number(size, dtype)


def from_host(other: Any, x: Any) -> Any:
    """Return a NumPy array or pandas object as a tensor on x's device; None for anything else.

    Arrays of objects, such as pandas columns of text, raise DTypeError.
    """
    if isinstance(other, Handle):
        return other
    if isinstance(other, np.ndarray) or hasattr(type(other), "__pandas_priority__"):
        return asarray(np.asarray(other), device=x.device)
    return None
