"""The functions of the language: positions, vectors and collective operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec

from calor.dtypes import DType, bool_, uint64
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.types import Type
from calor_kernel.language.builder import current
from calor_kernel.language.values import Number

Scope = Literal["unit", "plane", "warpgroup", "cube", "cluster"]
Axis = Literal[0, 1, 2]
P = ParamSpec("P")


# Positions.
def _position(name: str, attributes: dict[str, Any] | None = None) -> Number:
    builder = current()
    made = builder.emit(name, (), (Type(builder.index),), attributes)[0]
    made.nonnegative = True
    return made


def cube_position(axis: Axis = 0) -> Number:
    """Return the position of this cube in the launch along an axis."""
    return _position("cube_position", {"axis": axis})


def cube_count(axis: Axis = 0) -> Number:
    """Return the number of cubes of the launch along an axis."""
    return _position("cube_count", {"axis": axis})


def unit_position(axis: Axis = 0) -> Number:
    """Return the position of this unit in its cube along an axis."""
    builder = current()
    if builder.cube[axis] == 1:
        return builder.constant(0, builder.index)
    return _position("unit_position", {"axis": axis})


def cube_size(axis: Axis = 0) -> int:
    """Return the number of units of a cube along an axis, known at build time."""
    return current().cube[axis]


def unit_index() -> Number:
    """Return the linear index of this unit in its cube, x fastest."""
    builder = current()
    x, y, _ = builder.cube
    return unit_position(0) + x * (unit_position(1) + y * unit_position(2))


def absolute_position(axis: Axis = 0) -> Number:
    """Return the position of this unit in the whole launch along an axis."""
    return cube_position(axis) * current().cube[axis] + unit_position(axis)


def plane_size() -> int:
    """Return the number of units in lock step; 1 on a CPU."""
    return current().plane


def lane_position() -> Number:
    """Return the index of this unit in its plane."""
    builder = current()
    if builder.plane == 1:
        return builder.constant(0, builder.index)
    return _position("lane_position")


def plane_position() -> Number:
    """Return the index of this plane in its cube."""
    return _position("plane_position") if current().plane > 1 else unit_index()


# Values.
def constant(number: Any, dtype: DType, width: int = 1) -> Number:
    """Return a number, or a tuple of numbers as lanes, as a device value."""
    return current().constant(number, dtype, width)


def cast(value: Any, dtype: DType) -> Number:
    """Return a value converted by the operation ``cast``: saturating, NaN to 0."""
    return current().cast(value, dtype)


def bitcast(value: Any, dtype: DType) -> Number:
    """Return the bits reinterpreted as another type."""
    return current().bitcast(value, dtype)


def select(condition: Any, a: Any, b: Any) -> Number:
    """Return ``a`` where the condition holds, else ``b``, lane by lane; both are computed."""
    return current().select(condition, a, b)


def fma(a: Any, b: Any, c: Any) -> Number:
    """Return a * b + c, rounded once."""
    builder = current()
    a, b = builder.pair(a, b)
    a, c = builder.pair(a, c)
    b = builder.splat(b, a.width)
    return builder.emit("fma", (a, b, c), (a.type,))[0]


def _named(name: str, meaning: str, function: Callable[P, Number]) -> Callable[P, Number]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


def _binary(name: str, meaning: str) -> Callable[[Any, Any], Number]:
    return _named(name, meaning, lambda a, b: current().binary(name, a, b))


def _unary(name: str, meaning: str) -> Callable[[Any], Number]:
    return _named(name, meaning, lambda x: current().unary(name, x))


quotient = _binary("quotient", "Return a / b of integers, rounded toward zero.")
modulo = _binary("modulo", "Return the remainder of ``quotient``, with the sign of a.")
mulhi = _binary("mulhi", "Return the upper half of the product of integers.")
copysign = _binary("copysign", "Return a with the sign of b.")
floor = _unary("floor", "Return the largest integer not above x, of floats.")
ceil = _unary("ceil", "Return the smallest integer not below x, of floats.")
trunc = _unary("trunc", "Return the integer part of x, of floats.")
rint = _unary("rint", "Return the nearest integer, ties to even, of floats.")
sqrt = _unary("sqrt", "Return the square root, correctly rounded.")
popcount = _unary("popcount", "Return the number of bits that are set.")
clz = _unary("clz", "Return the number of leading zeros; the width of the type for zero.")
ctz = _unary("ctz", "Return the number of trailing zeros; the width of the type for zero.")


# Vectors.
def splat(value: Any, width: int) -> Number:
    """Return a vector with a scalar broadcast to every lane."""
    return current().splat(value, width)


def insert(vector: Number, lane: int, value: Any) -> Number:
    """Return the vector with one lane replaced."""
    builder = current()
    operands = (vector, builder.coerce(value, vector.type.scalar))
    return builder.emit("insert", operands, (vector.type,), {"lane": lane % vector.width})[0]


def pack(values: Sequence[Any]) -> Number:
    """Return a vector packed from scalars."""
    builder = current()
    made = [builder.coerce(v) for v in values]
    return builder.emit("pack", made, (made[0].type.wide(len(made)),))[0]


def shuffle(a: Number, lanes: Sequence[int], b: Number | None = None) -> Number:
    """Return lanes of a (0 … width−1) and of b (from width on), in the given order."""
    operands = (a, a if b is None else b)
    type = Type(a.dtype, len(lanes))
    return current().emit("shuffle", operands, (type,), {"lanes": tuple(lanes)})[0]


def vreduce(kind: str, vector: Number) -> Number:
    """Return the lanes of a vector reduced by add, mul, min, max, and, or, xor: halves first."""
    if vector.width == 1:
        return vector
    return current().emit("vreduce", (vector,), (vector.type.scalar,), {"kind": kind})[0]


def dot(a: Number, b: Number, c: Number) -> Number:
    """Return c plus, for each of its lanes, the dot product of its group of lanes of a and b.

    For 8-bit integers with 32-bit sums, and for bfloat16 with float32 sums.
    """
    return current().emit("dot", (a, b, c), (c.type,))[0]


# Synchronization and plane operations.
def barrier(scope: Scope = "cube", *, name: int = 0, count: int = 0) -> None:
    """Synchronize all units of a scope; their earlier writes become visible to each other.

    ``name`` and ``count``: one of the device's named barriers, and its number of units.
    """
    builder = current()
    x, y, z = builder.cube
    together = builder.plane if scope in ("plane", "warpgroup") else x * y * z
    alone = scope == "unit" or (together == 1 and scope != "cluster")
    if not alone:
        builder.emit("barrier", (), (), {"scope": scope, "name": name, "count": count})


def fence(scope: Scope | Literal["device"] = "device", order: str = "acq_rel") -> None:
    """Order this unit's earlier and later accesses, as seen by the others in the scope.

    ``order``: ``"async"`` orders writes of shared memory before later reads by a copy engine and by
    asynchronous products, which a barrier starts. WGSL needs a barrier of the cube beside a fence:
    before one that releases, behind one that acquires.
    """
    current().emit("fence", (), (), {"scope": scope, "order": order})


def await_launches() -> None:
    """Wait for the launches before this one, if the device starts it while these end.

    Without this a kernel waits at its first instruction. What precedes the call may prefetch,
    compute, and read memory that is only read; a device then starts the kernel early only if no
    launch of the list before it writes that memory.
    """
    builder = current()
    if "overlap" in builder.features:
        builder.attributes["awaits"] = True
        builder.emit("await_launches", (), (), {})


def _together(name: str, value: Any, kind: str, *others: Any) -> Number:
    """Return an operation over the units of a plane; the value itself if there is one unit."""
    builder = current()
    made = builder.coerce(value)
    if builder.plane == 1:
        return made
    operands = [made, *map(builder.coerce, others)]
    return builder.emit(name, operands, (made.type,), {"kind": kind})[0]


def plane_shuffle(value: Any, lane: Any, kind: str = "index") -> Number:
    """Return the value of another lane of the plane: "index", "xor", "up" or "down"."""
    return _together("plane_shuffle", value, kind, lane)


def plane_reduce(kind: str, value: Any) -> Number:
    """Return the reduction of all lanes' values in every lane."""
    return _together("plane_reduce", value, kind)


def plane_scan(kind: str, value: Any, *, exclusive: bool = False) -> Number:
    """Return the prefix reduction up to this lane, without its own value if exclusive."""
    builder = current()
    value = builder.coerce(value)
    said = {"kind": kind, "exclusive": exclusive}
    return builder.emit("plane_scan", (value,), (value.type,), said)[0]


def plane_ballot(condition: Any) -> Number:
    """Return a mask with one bit per lane, set where the condition holds."""
    builder = current()
    made = builder.coerce(condition)
    if made.dtype is not bool_:
        raise KernelTypeError(f"a ballot takes a bool, not {made.type}")
    return builder.emit("plane_ballot", (made,), (Type(uint64),))[0]
