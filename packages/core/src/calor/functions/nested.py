"""Nested sequences of numbers, arrays and tensors: their common dtype, and their tensors joined.

Requirements: the arrays and tensors of a sequence decide its dtype as they do in an operation, and
Python numbers beside them are weak. Tensors that are traced or take gradients are joined by
operations, so neither is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calor import dtypes
from calor.device_selection import as_device
from calor.dtypes import DType, as_dtype
from calor.errors import DTypeError, ShapeError
from calor.functions.arguments import NUMBERS
from calor.functions.conversion import astype, to_device
from calor.local import local
from calor.ops.movement import concat, reshape
from calor.recording.record import weak_spec
from calor.specs import Spec, spec
from calor.tensor.values import Handle

_PLAIN = frozenset(NUMBERS)


def taken(obj: Any, convert: Callable[[Any], Any], parts: list[Any]) -> Any:
    """Return a nested sequence as lists, with the arrays of other libraries converted.

    Its arrays, tensors and numbers are appended to ``parts``; of a row of numbers, one of each
    type.
    """
    if isinstance(obj, list | tuple):
        kinds = frozenset(map(type, obj))
        if kinds <= _PLAIN:
            parts.extend(kind() for kind in kinds)
            return list(obj)
        return [taken(item, convert, parts) for item in obj]
    if not isinstance(obj, Handle | np.ndarray | np.generic) and (
        hasattr(type(obj), "__dlpack__") or hasattr(type(obj), "__array__")
    ):
        obj = convert(obj)
    parts.append(obj)
    return obj


def _spec_of(leaf: Any) -> Spec | None:
    """Return the spec of an array, tensor or number; None for what is none of them.

    NumPy's numbers that are Python numbers as well, such as numpy.float64, count as these.
    """
    if isinstance(leaf, Handle):
        return leaf._value.spec
    for kind in NUMBERS:
        if isinstance(leaf, kind):
            return weak_spec(kind())
    if isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "biufcV":
        return spec((), as_dtype(leaf.dtype))
    return None


def dtype_of(parts: Sequence[Any]) -> DType | None:
    """Return the dtype that the arrays and tensors among the leaves of a sequence decide.

    None: there are neither, or there is something else than numbers.
    """
    specs = [_spec_of(leaf) for leaf in parts]
    known = [one for one in specs if one is not None]
    tensors = any(isinstance(leaf, Handle) for leaf in parts)
    strong = [one.dtype for one in known if not one.weak]
    if len(known) != len(specs) or not (strong or tensors):
        return None
    result = strong[0] if strong else dtypes.bool_
    try:
        for dtype in strong:
            result = dtypes.promote(result, dtype)
        for one in known:
            result = dtypes.promote_weak(result, one.dtype) if one.weak else result
    except DTypeError as error:
        raise DTypeError(f"asarray: {error}, or give asarray a dtype") from None
    return result


def device_of(parts: Sequence[Any]) -> Any:
    """Return the device of the first tensor among the leaves of a sequence, None without one."""
    return next((t._value.device for t in parts if isinstance(t, Handle)), None)


def is_recorded(parts: Sequence[Any]) -> bool:
    """Return whether some leaf is a tensor that is traced or takes gradients."""
    return any(isinstance(t, Handle) and (local.jit or t._record is not None) for t in parts)


def _holds_tensors(obj: Any) -> bool:
    if isinstance(obj, list):
        return any(isinstance(item, list | Handle) and _holds_tensors(item) for item in obj)
    return isinstance(obj, Handle)


def host_values(obj: Any) -> Any:
    """Return a nested list with its tensors replaced by host arrays."""
    if isinstance(obj, Handle):
        return obj.numpy()  # type: ignore[attr-defined]
    if isinstance(obj, list) and _holds_tensors(obj):
        return [host_values(item) for item in obj]
    return obj


def joined(obj: Any, dtype: DType | None, device: Any, made: Callable[[Any], Any]) -> Any:
    """Return the tensor that joins the tensors of a nested list, and what ``made`` makes of others.

    It is recorded, so gradients flow through it. DTypeError without a dtype: the sequence holds
    something else than numbers.
    """
    if dtype is None:
        raise DTypeError(
            "asarray: the sequence holds something else than numbers, arrays and tensors; take it "
            "out first"
        )
    if isinstance(obj, Handle):
        tensor: Any = obj
        return to_device(astype(tensor, dtype, copy=False), as_device(device))
    if not _holds_tensors(obj):
        return made(obj)
    parts = [joined(item, dtype, device, made) for item in obj]
    shape = parts[0].shape
    for part in parts:
        if part.shape != shape:
            raise ShapeError(
                f"asarray: the parts of the nested sequence differ in shape, {shape} and "
                f"{part.shape}; pad them to one shape first"
            )
    rows = [reshape(part, shape=(1, *shape)) for part in parts]
    return concat(*rows, axis=0) if len(rows) > 1 else rows[0]
