"""Host values that hold symbolic sizes, and what operators compute of them.

Requirements: a graph is traced once for many sizes, so what it computes of shapes stays symbolic,
exactly. An operator without a row here gets plain numbers, by which the trace holds for these sizes
alone. Sizes are computed without overflow, and those that do not fit their type are an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from calor.sizes import Size

Array = np.ndarray[Any, Any]


class SizedArray:
    """A host array of integers, some of which are symbolic sizes.

    ``items`` is an array of objects; ``dtype`` is that of the elements in ONNX.
    """

    __slots__ = ("dtype", "items")

    def __init__(self, items: Array, dtype: Any) -> None:
        self.items = items
        self.dtype = np.dtype(dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes, which are never symbolic."""
        shape: tuple[int, ...] = self.items.shape
        return shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.items.size

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.items.ndim

    def plain(self) -> Array:
        """Return the numbers; the trace then holds for them alone."""
        made = np.empty(self.shape, self.dtype)
        flat = made.reshape(-1)
        for place, item in enumerate(self.items.reshape(-1)):
            flat[place] = int(item)
        return made


def array_of(sizes: Sequence[Any], dtype: Any = np.int64) -> Any:
    """Return sizes as a host array: of numbers if none is symbolic."""
    if not any(isinstance(n, Size) for n in sizes):
        return np.array(sizes, dtype)
    items = np.empty(len(sizes), np.object_)
    for place, n in enumerate(sizes):
        items[place] = n if isinstance(n, Size) else int(n)
    return SizedArray(items, dtype)


def scalar_of(size: Any, dtype: Any = np.int64) -> Any:
    """Return a size as a host array of rank 0."""
    made = array_of([size], dtype)
    if isinstance(made, SizedArray):
        return SizedArray(made.items.reshape(()), dtype)
    return made.reshape(())


def is_sized(value: Any) -> bool:
    """Return whether a value holds symbolic sizes."""
    return type(value) is SizedArray


def plain_value(value: Any) -> Any:
    """Return a value without symbolic sizes."""
    if isinstance(value, list):
        return [plain_value(item) for item in value]
    return value.plain() if type(value) is SizedArray else value


# All integers below are exact in a type.
_EXACT: Final = {"int32": 2**31, "int64": 2**63, "float32": 2**24, "float64": 2**53}


def _items(value: Any) -> Array:
    if type(value) is SizedArray:
        return value.items
    # Python's numbers, in which sizes are polynomials.
    return np.asarray(value.tolist(), np.object_).reshape(value.shape)


def _made(items: Any, dtype: Any) -> Any:
    """Return an array of objects as a host value."""
    array = np.empty(np.shape(items), np.object_)
    array[...] = items
    sizes = [item for item in array.reshape(-1) if isinstance(item, Size)]
    if not sizes:
        return array.astype(dtype)
    most = _EXACT[np.dtype(dtype).name]
    if not all(-most < item < most for item in sizes):
        raise OverflowError(f"a size does not fit {np.dtype(dtype).name}")
    return SizedArray(array, dtype)


def _ints(value: Any) -> list[int]:
    return [int(n) for n in plain_value(value).reshape(-1)]


def _elementwise(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def row(version: int, a: Any, b: Any) -> Any:
        x, y = np.broadcast_arrays(_items(a), _items(b))
        made = np.empty(x.shape, np.object_)
        for place in np.ndindex(x.shape):
            made[place] = function(x[place], y[place])
        return made

    return row


def _divided(a: Any, b: Any) -> Any:
    # C's division rounds towards zero.
    return a // b if a >= 0 and b > 0 else int(a) // int(b)


def _gather(version: int, x: Any, indices: Any, *, axis: int = 0) -> Any:
    return np.take(_items(x), plain_value(indices), axis=axis)


def _slice(version: int, x: Any, *bounds: Any, **attributes: Any) -> Any:
    if version >= 10:
        starts, ends = _ints(bounds[0]), _ints(bounds[1])
        axes = _ints(bounds[2]) if len(bounds) > 2 and bounds[2] is not None else None
        steps = _ints(bounds[3]) if len(bounds) > 3 and bounds[3] is not None else None
    else:
        starts, ends = attributes["starts"], attributes["ends"]
        axes, steps = attributes.get("axes"), None
    key = [slice(None)] * x.ndim
    along = range(len(starts)) if axes is None else axes
    for a, b, axis, step in zip(starts, ends, along, steps or [1] * len(starts), strict=True):
        if step < 1:
            raise ValueError("a slice of sizes has a negative step")
        key[axis] = slice(a, b, step)
    return _items(x)[tuple(key)]


def _axes(given: tuple[Any, ...], attributes: dict[str, Any]) -> list[int] | None:
    if given and given[0] is not None:
        return _ints(given[0])
    return attributes.get("axes")


def _squeeze(version: int, x: Any, *given: Any, **attributes: Any) -> Any:
    axes = _axes(given, attributes)
    return np.squeeze(_items(x), None if axes is None else tuple(axes))


def _unsqueeze(version: int, x: Any, *given: Any, **attributes: Any) -> Any:
    return np.expand_dims(_items(x), tuple(_axes(given, attributes) or ()))


def _reshape(version: int, x: Any, *given: Any, **attributes: Any) -> Any:
    wanted = _ints(given[0]) if given else attributes["shape"]
    if not attributes.get("allowzero", 0):
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    return _items(x).reshape(wanted)


def _concat(version: int, *values: Any, axis: int = 1) -> Any:
    return np.concatenate([_items(value) for value in values], axis)


def _where(version: int, condition: Any, a: Any, b: Any) -> Any:
    return np.where(plain_value(condition), _items(a), _items(b))


def _least(version: int, *values: Any) -> Any:
    return _joined(min, values)


def _most(version: int, *values: Any) -> Any:
    return _joined(max, values)


def _joined(choose: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    made = _items(values[0])
    for value in values[1:]:
        made = _elementwise(choose)(0, SizedArray(made, np.int64), value)
    return made


def _product(version: int, x: Any, *given: Any, keepdims: int = 1, **attributes: Any) -> Any:
    axes = _axes(given, attributes)
    where = None if axes is None else tuple(axes)
    return np.prod(_items(x), axis=where, keepdims=bool(keepdims))


def _total(version: int, x: Any, *given: Any, keepdims: int = 1, **attributes: Any) -> Any:
    axes = _axes(given, attributes)
    where = None if axes is None else tuple(axes)
    return np.sum(_items(x), axis=where, keepdims=bool(keepdims))


# By the operator's name: the opset, the operands and the attributes to an array of objects.
_ROWS: Final[dict[str, Callable[..., Any]]] = {
    "Add": _elementwise(lambda a, b: a + b),
    "Sub": _elementwise(lambda a, b: a - b),
    "Mul": _elementwise(lambda a, b: a * b),
    "Div": _elementwise(_divided),
    "Min": _least,
    "Max": _most,
    "Gather": _gather,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Concat": _concat,
    "Where": _where,
    "ReduceProd": _product,
    "ReduceSum": _total,
}
# Operators whose results are truth values, by a question about each pair.
_QUESTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Equal": lambda a, b: a == b,
    "Less": lambda a, b: a < b,
    "LessOrEqual": lambda a, b: a <= b,
    "Greater": lambda a, b: a > b,
    "GreaterOrEqual": lambda a, b: a >= b,
}


# Operators that read the axes of their operand alone, which are never symbolic.
_OF_SHAPES: Final[dict[str, Callable[..., Any]]] = {
    "Shape": lambda x, start=0, end=None: x.shape[start:end],
    "Size": lambda x: x.size,
}
# Operators whose operands on the host may be symbolic, since they read them as integers.
TAKES: Final = frozenset(
    {"ConstantOfShape", "Expand", "Identity", "Range", "Reshape", "Slice", "Split", "Tile"}
)


def computed(name: str, version: int, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """Return an operator's result for host values with symbolic sizes; None without a row.

    Parameters
    ----------
    name : str
        The operator of ai.onnx.
    version : int
        The opset.
    inputs : sequence of array, SizedArray or None
        The operands.
    attributes : dict
        The attributes.

    Returns
    -------
    array, SizedArray or None
        The result.
    """
    if name == "Cast":
        to = _CASTS.get(attributes.get("to", 0)) if isinstance(attributes.get("to"), int) else None
        return None if to is None else _made(_items(inputs[0]), to)
    if name in _OF_SHAPES:
        return np.array(_OF_SHAPES[name](*inputs, **attributes), np.int64)
    if name in _QUESTIONS:
        answers = _elementwise(lambda a, b: bool(_QUESTIONS[name](a, b)))(version, *inputs)
        return answers.astype(np.bool_)
    row = _ROWS.get(name)
    if row is None:
        return None
    typed = inputs[1] if name == "Where" else inputs[0]
    if np.dtype(typed.dtype).kind not in "iu":
        return None
    return _made(row(version, *inputs, **attributes), typed.dtype)


# Types that hold sizes, by their number in ONNX.
_CASTS: Final = {1: np.float32, 6: np.int32, 7: np.int64, 11: np.float64}
