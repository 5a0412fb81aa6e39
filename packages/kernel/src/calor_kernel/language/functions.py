"""The functions of the language: positions, memory, vectors and what units do together.

Requirements: each makes one operation, or a few; each says what it takes and returns; scopes are
named in the call, so that a kernel for one unit and one for many read alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import Any, Literal

from calor.dtypes import DType, bool_, uint64
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.nodes import Memory
from calor_kernel.ir.types import Type
from calor_kernel.language.builder import Builder, current
from calor_kernel.language.values import Number

Scope = Literal["unit", "plane", "warpgroup", "cube", "cluster"]
Axis = Literal[0, 1, 2]


class Pointer:
    """Memory that a kernel reads and writes by element: ``p[i]``, ``p[i] = v``, ``p.load(i, 8)``.

    ``offset`` moves the place that index 0 means.
    """

    __slots__ = ("builder", "memory", "offset")

    def __init__(self, builder: Builder, memory: Memory, offset: Number | int = 0) -> None:
        self.builder = builder
        self.memory = memory
        self.offset = offset

    @property
    def dtype(self) -> DType:
        """The type of an element."""
        return self.memory.type.dtype

    def __repr__(self) -> str:
        return f"<{self.memory.space} {self.memory.name}: {self.memory.type}>"

    def at(self, index: Any) -> Pointer:
        """Return the memory with index 0 moved to ``index``."""
        return Pointer(self.builder, self.memory, self._index(index))

    def _index(self, index: Any) -> Number:
        builder = self.builder
        made = builder.coerce(index, Type(builder.index) if isinstance(index, int) else None)
        if made.dtype.kind not in ("int", "uint"):
            raise KernelTypeError(f"{self!r} is indexed by integers, not {made.type}")
        if isinstance(self.offset, int) and self.offset == 0:
            return made
        offset = builder.coerce(self.offset, made.type.scalar)
        if offset.dtype is not made.dtype:
            made = builder.cast(made, offset.dtype)
        return builder.binary("add", offset, made)

    def _align(self, place: Number, said: int, width: int) -> int:
        """Return the bytes by which the address of a vector is known to divide."""
        if said or width == 1 or place.width > 1 or not self.memory.align:
            return said
        known = gcd(self.memory.align, place.divisible * self.dtype.itemsize)
        return known if known > self.dtype.itemsize else 0

    def __getitem__(self, index: Any) -> Number:
        return self.load(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.store(index, value)

    def load(
        self,
        index: Any,
        width: int = 1,
        *,
        mask: Any = None,
        other: Any = 0,
        align: int = 0,
        order: str = "",
        scope: str = "",
        nontemporal: bool = False,
    ) -> Number:
        """Return ``width`` elements from ``index`` on; with a vector of indices, one for each.

        ``mask``: lanes without it read nothing and are ``other``. ``align``: bytes by which the
        address is known to divide; if not said, what follows from the memory and the index.
        ``order`` and ``scope`` are for memory that other units write: "relaxed" or "acquire", in a
        cube or the whole device.
        """
        builder = self.builder
        place = self._index(index)
        width = max(width, place.width)
        type = Type(self.dtype, width)
        operands: list[Number] = [place]
        if mask is not None:
            mask = builder.splat(builder.coerce(mask), width)
            operands += [mask, builder.splat(builder.coerce(other, type), width)]
        said = _access(
            self._align(place, align, width), order, scope, nontemporal, mask is not None
        )
        return builder.emit("load", operands, (type,), said, memory=self.memory)[0]

    def store(
        self,
        index: Any,
        value: Any,
        *,
        mask: Any = None,
        align: int = 0,
        order: str = "",
        scope: str = "",
        nontemporal: bool = False,
    ) -> None:
        """Write a value, a vector to consecutive elements or to a vector of indices.

        Arguments as for ``load``, with the order "relaxed" or "release".
        """
        builder = self.builder
        if not self.memory.writable:
            raise KernelTypeError(f"{self!r} is declared as only read; Buffer(…, writable=True)")
        place = self._index(index)
        value = builder.coerce(value, Type(self.dtype))
        if value.dtype is not self.dtype:
            raise KernelTypeError(
                f"{builder._line()}{self!r} does not hold {value.type}; write .to({self.dtype})"
            )
        if place.width > 1:
            value = builder.splat(value, place.width)
        operands: list[Number] = [place, value]
        if mask is not None:
            operands.append(builder.splat(builder.coerce(mask), value.width))
        said = _access(
            self._align(place, align, value.width), order, scope, nontemporal, mask is not None
        )
        builder.emit("store", operands, (), said, memory=self.memory)

    def atomic(
        self,
        kind: str,
        index: Any,
        *values: Any,
        order: str = "relaxed",
        scope: str = "device",
    ) -> Number:
        """Change an element in one step and return what it was.

        ``kind``: add, min, max, and, or, xor, exchange (with a value), compare (with the expected
        and the new value).
        """
        builder = self.builder
        place = self._index(index)
        type = Type(self.dtype)
        operands = [place, *(builder.coerce(v, type) for v in values)]
        if any(v.type != type for v in operands[1:]):
            raise KernelTypeError(f"an atomic on {self!r} takes {type}")
        said = {"kind": kind, "order": order, "scope": scope}
        return builder.emit("atomic", operands, (type,), said, memory=self.memory)[0]

    def prefetch(self, index: Any, *, write: bool = False, locality: int = 3) -> None:
        """Ask for an element's cache line ahead of time; ``locality`` 0 (once) to 3 (keep)."""
        said = {"write": write, "locality": locality}
        self.builder.emit("prefetch", (self._index(index),), (), said, memory=self.memory)


def _access(align: int, order: str, scope: str, nontemporal: bool, masked: bool) -> dict[str, Any]:
    given = {
        "align": align,
        "order": order,
        "scope": scope,
        "nontemporal": nontemporal,
        "masked": masked,
    }
    return {k: v for k, v in given.items() if v}


# Positions.
def _position(name: str, attributes: dict[str, Any] | None = None) -> Number:
    builder = current()
    made = builder.emit(name, (), (Type(builder.index),), attributes)[0]
    made.nonnegative = True
    return made


def cube_position(axis: Axis = 0) -> Number:
    """Return which cube of the launch this is, along an axis."""
    return _position("cube_position", {"axis": axis})


def cube_count(axis: Axis = 0) -> Number:
    """Return how many cubes the launch has along an axis."""
    return _position("cube_count", {"axis": axis})


def unit_position(axis: Axis = 0) -> Number:
    """Return which unit of its cube this is, along an axis."""
    builder = current()
    if builder.cube[axis] == 1:
        return builder.constant(0, builder.index)
    return _position("unit_position", {"axis": axis})


def cube_size(axis: Axis = 0) -> int:
    """Return how many units a cube has along an axis; the build knows it."""
    return current().cube[axis]


def unit_index() -> Number:
    """Return which unit of its cube this is, x fastest."""
    builder = current()
    x, y, _ = builder.cube
    return unit_position(0) + x * (unit_position(1) + y * unit_position(2))


def absolute_position(axis: Axis = 0) -> Number:
    """Return which unit of the whole launch this is, along an axis."""
    return cube_position(axis) * current().cube[axis] + unit_position(axis)


def plane_size() -> int:
    """Return how many units run in lock step; 1 on a CPU."""
    return current().plane


def lane_position() -> Number:
    """Return the unit's place in its plane."""
    builder = current()
    if builder.plane == 1:
        return builder.constant(0, builder.index)
    return _position("lane_position")


def plane_position() -> Number:
    """Return the plane's place in its cube."""
    return _position("plane_position") if current().plane > 1 else unit_index()


# Memory of a kernel's own.
def shared(size: int, dtype: DType, *, align: int = 0) -> Pointer:
    """Return memory of ``size`` elements that the units of a cube share."""
    builder = current()
    return Pointer(builder, builder.memory("shared", "shared", Type(dtype), size, align))


def private(size: int, dtype: DType, *, align: int = 0) -> Pointer:
    """Return memory of ``size`` elements of one unit, indexed by device values.

    Where the build knows all indices, ``registers`` is faster.
    """
    builder = current()
    return Pointer(builder, builder.memory("private", "private", Type(dtype), size, align))


# Values.
def constant(number: Any, dtype: DType, width: int = 1) -> Number:
    """Return a number, or a tuple of numbers as lanes, as a device value."""
    return current().constant(number, dtype, width)


def cast(value: Any, dtype: DType) -> Number:
    """Return a value converted as the operation ``cast`` says: saturating, NaN to 0."""
    return current().cast(value, dtype)


def bitcast(value: Any, dtype: DType) -> Number:
    """Return the same bits as another type."""
    return current().bitcast(value, dtype)


def select(condition: Any, a: Any, b: Any) -> Number:
    """Return a where the condition holds, else b, lane by lane; both are computed."""
    return current().select(condition, a, b)


def fma(a: Any, b: Any, c: Any) -> Number:
    """Return a * b + c, rounded once."""
    builder = current()
    a, b = builder.pair(a, b)
    a, c = builder.pair(a, c)
    b = builder.splat(b, a.width)
    return builder.emit("fma", (a, b, c), (a.type,))[0]


def quotient(a: Any, b: Any) -> Number:
    """Return a / b of integers, rounded toward zero."""
    return current().binary("quotient", a, b)


def modulo(a: Any, b: Any) -> Number:
    """Return what ``quotient`` leaves, with the sign of a."""
    return current().binary("modulo", a, b)


def mulhi(a: Any, b: Any) -> Number:
    """Return the upper half of the product of integers."""
    return current().binary("mulhi", a, b)


def copysign(a: Any, b: Any) -> Number:
    """Return a with the sign of b."""
    return current().binary("copysign", a, b)


def _unary(name: str, meaning: str) -> Callable[[Any], Number]:
    def function(x: Any) -> Number:
        return current().unary(name, x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


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
    """Return a vector with a scalar in every lane."""
    return current().splat(value, width)


def insert(vector: Number, lane: int, value: Any) -> Number:
    """Return the vector with one lane replaced."""
    builder = current()
    operands = (vector, builder.coerce(value, vector.type.scalar))
    return builder.emit("insert", operands, (vector.type,), {"lane": lane % vector.width})[0]


def pack(values: Sequence[Any]) -> Number:
    """Return a vector of scalars."""
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
    """Return c plus, per lane, the products of the group of lanes of a and b that it stands for.

    Of 8-bit integers with 32-bit sums, and of bfloat16 with float32 sums.
    """
    return current().emit("dot", (a, b, c), (c.type,))[0]


# Units together.
def barrier(scope: Scope = "cube", *, name: int = 0, count: int = 0) -> None:
    """Wait for all units of a scope, and make what they wrote visible to each other.

    ``name`` and ``count``: one of the device's named barriers, which ``count`` units reach.
    """
    builder = current()
    x, y, z = builder.cube
    together = builder.plane if scope in ("plane", "warpgroup") else x * y * z
    alone = scope == "unit" or (together == 1 and scope != "cluster")
    if not alone:
        builder.emit("barrier", (), (), {"scope": scope, "name": name, "count": count})


def fence(scope: Scope | Literal["device"] = "device", order: str = "acq_rel") -> None:
    """Order this unit's accesses before and after, as the others in the scope see them."""
    current().emit("fence", (), (), {"scope": scope, "order": order})


def plane_shuffle(value: Any, lane: Any, kind: str = "index") -> Number:
    """Return the value of another lane of the plane: "index", "xor", "up" or "down"."""
    builder = current()
    made = builder.coerce(value)
    if builder.plane == 1:
        return made
    other = builder.coerce(lane)
    return builder.emit("plane_shuffle", (made, other), (made.type,), {"kind": kind})[0]


def plane_reduce(kind: str, value: Any) -> Number:
    """Return the reduction of all lanes' values, to every lane."""
    builder = current()
    made = builder.coerce(value)
    if builder.plane == 1:
        return made
    return builder.emit("plane_reduce", (made,), (made.type,), {"kind": kind})[0]


def plane_scan(kind: str, value: Any, *, exclusive: bool = False) -> Number:
    """Return the reduction of the lanes up to this one, without its own where exclusive."""
    builder = current()
    value = builder.coerce(value)
    said = {"kind": kind, "exclusive": exclusive}
    return builder.emit("plane_scan", (value,), (value.type,), said)[0]


def plane_ballot(condition: Any) -> Number:
    """Return a bit per lane: where the condition holds."""
    builder = current()
    made = builder.coerce(condition)
    if made.dtype is not bool_:
        raise KernelTypeError(f"a ballot takes a bool, not {made.type}")
    return builder.emit("plane_ballot", (made,), (Type(uint64),))[0]
