"""The dtype of what two dtypes give, and a dtype and a Python number, by operators and functions.

The table is written here anew, and not read from calor's. Operators, their functions, what chooses
between two operands and what joins them agree on it, in both orders, at once and in a jitted
function; a Python number has the tensor's dtype unless its kind is higher, and numbers are those of
NumPy in the dtype that is due.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import ALL, DType, float32
from calor.errors import DTypeError

from .base import Check, Place
from .errors import raised

CONTRACT: Final = "two dtypes give one dtype, whoever combines them, in either order"
Rng = np.random.Generator

_INTEGERS: Final = ("int8", "int16", "int32", "int64")
# What signed and unsigned integers have in common, by the unsigned one.
_MIXED: Final = {"uint8": ("int16", "int16", "int32", "int64"),
                 "uint16": ("int32", "int32", "int32", "int64"),
                 "uint32": ("int64", "int64", "int64", "int64"),
                 "uint64": (None, None, None, None)}  # fmt: skip
_COMPLEX: Final = {"float16": "complex64", "bfloat16": "complex64", "float32": "complex64",
                   "float64": "complex128"}  # fmt: skip


def common(a: DType, b: DType) -> str | None:
    """Return the name of the common dtype, None where there is none."""
    if "storage" in (a.kind, b.kind):
        return a.name if a is b else None
    if a is b or b.kind == "bool":
        return a.name
    if a.kind == "bool":
        return b.name
    order = ("uint", "int", "float", "complex")
    low, high = sorted((a, b), key=lambda d: (order.index(d.kind), d.itemsize))
    if low.kind == high.kind:
        halves = {low.name, high.name} == {"float16", "bfloat16"}
        return "float32" if halves else high.name
    if low.kind == "uint" and high.kind == "int":
        return _MIXED[low.name][_INTEGERS.index(high.name)]
    if high.kind == "complex":
        return "complex128" if low.name == "float64" else high.name
    return high.name


def with_number(dtype: DType, number: Any) -> str:
    """Return the name of the dtype that a tensor's dtype and a Python number give."""
    ranks = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}
    rank = (bool, int, float, complex).index(type(number))
    if rank <= ranks[dtype.kind]:
        return dtype.name
    if rank == 3:
        return _COMPLEX.get(dtype.name, "complex64")
    return "float32" if rank == 2 else "int64"


def _divided(name: str) -> str:
    return "float32" if name.startswith(("int", "uint", "bool")) else name


def _condition() -> Any:
    return calor.asarray(np.array([True, False]))


# How two operands are combined: the function, and what it makes of their common dtype.
_WAYS: Final[dict[str, tuple[Callable[[Any, Any], Any], Callable[[str], str]]]] = {
    "+": (operator.add, str), "*": (operator.mul, str), "-": (operator.sub, str),
    "/": (operator.truediv, _divided), "==": (operator.eq, lambda name: "bool"),
    "!=": (operator.ne, lambda name: "bool"), "<": (operator.lt, lambda name: "bool"),
    "add": (calor.add, str), "multiply": (calor.multiply, str),
    "subtract": (calor.subtract, str), "divide": (calor.divide, _divided),
    "maximum": (calor.maximum, str), "minimum": (calor.minimum, str),
    "where": (lambda a, b: calor.where(_condition(), a, b), str),
    "//": (operator.floordiv, str), "%": (operator.mod, str), "equal": (
        calor.equal, lambda name: "bool"), "greater": (calor.greater, lambda name: "bool"),
}  # fmt: skip
# Ways of two tensors alone.
_TENSORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "concat": lambda a, b: calor.concat([a, b]), "stack": lambda a, b: calor.stack([a, b]),
    "@": operator.matmul, "outer": calor.outer, "result_type": calor.result_type,
    "tensordot": lambda a, b: calor.tensordot(a, b, axes=1), "vecdot": calor.vecdot,
}  # fmt: skip
_ORDERED: Final = ("<", "maximum", "minimum", "//", "%", "greater")
# Truths have no differences and no remainders.
_NO_TRUTHS: Final = ("-", "subtract", "//", "%", "/", "divide", "vecdot", "@", "tensordot", "outer",
                     "maximum", "minimum", "<", "greater")  # fmt: skip
_NUMBERS: Final = (True, 2, 2.0, 2j)


def _asked(way: str, kinds: set[str]) -> bool:
    """Return whether a way is defined for what two operands have in common."""
    if "complex" in kinds and way in _ORDERED:
        return False
    return not (kinds <= {"bool"} and way in _NO_TRUTHS)


def _made(call: Callable[..., Any], a: Any, b: Any, jitted: bool) -> Any:
    tensors = [x for x in (a, b) if isinstance(x, calor.Tensor)]
    if not jitted or call is calor.result_type:
        return call(a, b)
    if len(tensors) == 2:
        return calor.jit(call)(a, b)
    return calor.jit(lambda t: call(t if a is tensors[0] else a, t if b is tensors[0] else b))(
        tensors[0]
    )


def _dtype(made: Any) -> str:
    return str(made if isinstance(made, DType) else made.dtype)


def _held(dtype: DType, place: Place) -> bool:
    info = place.plain.info
    return bool(info.dtypes.get(dtype)) and dtype.kind != "storage"


def _run_pairs(dtype: DType, place: Place) -> None:
    rng = np.random.default_rng([place.seed, 505, dtype.index])
    x = np.array([2, 3]).astype(dtype.numpy)
    others = [d for d in ALL if _held(d, place)]
    for number, other in enumerate(others):
        y = np.array([3, 1]).astype(other.numpy)
        due = common(dtype, other)
        ways = {**{n: w for n, (w, _) in _WAYS.items()}, **_TENSORS}
        for name, call in ways.items():
            if not _asked(name, {dtype.kind, other.kind}):
                continue
            told = f"{name} of {dtype} and {other}"
            a, b = calor.asarray(x), calor.asarray(y)
            if due is None:
                error = raised(partial(call, a, b))
                assert isinstance(error, DTypeError), f"{told}: {error!r}"
                continue
            if not place.plain.info.dtypes.get(calor.dtypes.as_dtype(due)):
                continue
            want = _WAYS[name][1](due) if name in _WAYS else due
            jitted = place.interpreted and rng.random() < 0.1
            made = _made(call, a, b, jitted)
            assert _dtype(made) == want, f"{told} is {_dtype(made)}, not {want}, {jitted=}"
        if due is not None and place.tries(number, 12) and dtype.kind != "bool":
            _numbers(x, y, due, place, f"of {dtype} and {other}")


def _numbers(x: Any, y: Any, due: str, place: Place, told: str) -> None:
    """Compare numbers with those of NumPy in the dtype that is due."""
    kind = calor.dtypes.as_dtype(due)
    if not place.plain.info.supports("mul", kind):
        return
    made = place.call(lambda a, b: a * b + a, calor.asarray(x), calor.asarray(y))
    wide = [v.astype(kind.numpy) for v in (x, y)]
    want = wide[0] * wide[1] + wide[0]
    got = made.numpy()
    assert str(made.dtype) == due, f"a · b + a {told} is {made.dtype}, not {due}"
    assert (got == want).all(), f"a · b + a {told}: {got.tolist()}, not {want.tolist()}"


def _run_numbers(dtype: DType, place: Place) -> None:
    rng = np.random.default_rng([place.seed, 506, dtype.index])
    x = np.array([2, 3]).astype(dtype.numpy)
    for number in _NUMBERS:
        due = with_number(dtype, number)
        if not place.plain.info.dtypes.get(calor.dtypes.as_dtype(due)):
            continue
        kinds = {dtype.kind, {bool: "bool", complex: "complex"}.get(type(number), "float")}
        for name, (call, of) in _WAYS.items():
            if not _asked(name, kinds):
                continue
            for turned in (False, True):
                t = calor.asarray(x)
                pair: tuple[Any, Any] = (number, t) if turned else (t, number)
                told = f"{name} of {pair[0]!r} and {pair[1]!r}"
                made = _made(call, pair[0], pair[1], place.interpreted and rng.random() < 0.1)
                assert _dtype(made) == of(due), f"{told} is {made.dtype}, not {of(due)}"
        made = calor.result_type(calor.asarray(x), number)
        assert str(made) == due, f"result_type of {dtype} and {number!r} is {made}, not {due}"
        filled = calor.full_like(calor.asarray(x), 1 if number is True else 2)
        assert filled.dtype is dtype, f"full_like of {dtype} is {filled.dtype}"


def pairs_of_dtypes() -> Iterator[Check]:
    """Yield checks of each dtype with all others, and with Python numbers."""
    for dtype in ALL:
        if dtype.kind == "storage":
            continue
        some: tuple[tuple[str, Callable[..., None]], ...] = (
            ("pairs-of-dtypes", _run_pairs), ("numbers-beside-dtypes", _run_numbers),
        )  # fmt: skip
        for subject, run in some:
            yield Check(
                kind="functions",
                subject=subject,
                tier="dtypes",
                contract=CONTRACT,
                run=partial(run, dtype),
                text=partial(inspect.getsource, common),
                op="cast",
                dtype=dtype,
                dtypes=(dtype, float32),
                looks=True,
            )
