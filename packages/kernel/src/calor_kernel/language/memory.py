"""Memory in kernels: buffers by element, a kernel's own memory, and register arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from math import gcd, prod
from typing import Any

from calor.dtypes import DType
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.nodes import Memory
from calor_kernel.ir.types import Type
from calor_kernel.language.builder import Builder, current
from calor_kernel.language.values import Number

_NUMBERS = count()


class Pointer:
    """Memory accessed by element: ``p[i]``, ``p[i] = v``, ``p.load(i, 8)``.

    ``offset`` is the element at index 0.
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

    def _said(self, place: Number, align: int, width: int, **given: Any) -> dict[str, Any]:
        """Return the attributes of an access, with the known alignment of a vector's address."""
        if not align and width > 1 and place.width == 1 and self.memory.align:
            known = gcd(self.memory.align, place.divisible * self.dtype.itemsize)
            align = known if known > self.dtype.itemsize else 0
        return {name: value for name, value in {"align": align, **given}.items() if value}

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

        ``mask``: masked-off lanes read nothing and are ``other``. ``align``: the known alignment of
        the address in bytes, by default derived from the memory and the index. ``order`` and
        ``scope`` are for memory written by other units: "relaxed" or "acquire", in a cube or the
        whole device.
        """
        builder = self.builder
        place = self._index(index)
        width = max(width, place.width)
        type = Type(self.dtype, width)
        operands: list[Number] = [place]
        if mask is not None:
            mask = builder.splat(builder.coerce(mask), width)
            operands += [mask, builder.splat(builder.coerce(other, type), width)]
        said = {"order": order, "scope": scope, "nontemporal": nontemporal}
        said = self._said(place, align, width, **said, masked=mask is not None)
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
            raise KernelTypeError(f"{self!r} does not hold {value.type}; write .to({self.dtype})")
        if place.width > 1:
            value = builder.splat(value, place.width)
        operands: list[Number] = [place, value]
        if mask is not None:
            operands.append(builder.splat(builder.coerce(mask), value.width))
        said = {"order": order, "scope": scope, "nontemporal": nontemporal}
        said = self._said(place, align, value.width, **said, masked=mask is not None)
        builder.emit("store", operands, (), said, memory=self.memory)

    __getitem__ = load
    __setitem__ = store

    def atomic(
        self,
        kind: str,
        index: Any,
        *values: Any,
        order: str = "relaxed",
        scope: str = "device",
    ) -> Number:
        """Update an element atomically and return its old value.

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
        """Prefetch an element's cache line; ``locality`` 0 (once) to 3 (keep)."""
        said = {"write": write, "locality": locality}
        self.builder.emit("prefetch", (self._index(index),), (), said, memory=self.memory)


def selected(pointers: Sequence[Pointer], number: Number) -> Pointer:
    """Return the pointer with a number, equal in a cube; the pointers begin at their index 0.

    A kernel accesses the memory of these pointers only through what this function returns, or the
    device has no feature "pointers" and the number must be known to the build.
    """
    builder = current()
    first = pointers[0].memory
    memories = tuple(p.memory for p in pointers)
    if any(m.type != first.type or m.space != first.space for m in memories):
        raise KernelTypeError(f"memory is chosen among {first.type}, not {memories!r}")
    if any(not isinstance(p.offset, int) or p.offset for p in pointers):
        raise KernelTypeError("memory is chosen among pointers to their first elements")
    made = Memory(
        f"{first.name}_selected",
        first.space,
        first.type,
        align=min(m.align for m in memories),
        writable=any(m.writable for m in memories),
    )
    place = builder.coerce(number, Type(builder.index))
    builder.emit("select_memory", (place,), (), {"memories": memories}, memory=made)
    return Pointer(builder, made)


def shared(size: int, dtype: DType, *, align: int = 0) -> Pointer:
    """Return memory of ``size`` elements that the units of a cube share."""
    builder = current()
    return Pointer(builder, builder.memory("shared", "shared", Type(dtype), size, align))


def private(size: int, dtype: DType, *, align: int = 0) -> Pointer:
    """Return memory of ``size`` elements of one unit, indexed by device values.

    If the build knows all indices, ``registers`` is faster.
    """
    builder = current()
    return Pointer(builder, builder.memory("private", "private", Type(dtype), size, align))


class Registers:
    """An array of device values with build-time indices; made by :func:`registers`.

    ``a[i, j]`` reads, ``a[i, j] = v`` writes; indices are Python integers. Loops over them are
    unrolled by Python itself. A compiler sees single values and keeps them in registers. The
    builder carries the changes of loops and branches, also those made in helper functions.
    """

    __slots__ = ("__weakref__", "builder", "items", "number", "shape", "type")

    def __init__(self, builder: Builder, shape: tuple[int, ...], type: Type, first: Number) -> None:
        self.builder = builder
        self.shape = shape
        self.type = type
        self.items: list[Number] = [first] * prod(shape)
        self.number = next(_NUMBERS)
        builder.arrays.add(self)

    def _place(self, index: int | tuple[int, ...]) -> int:
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) != len(self.shape):
            raise IndexError(
                f"register array of shape {self.shape} takes {len(self.shape)} indices"
            )
        place = 0
        for i, n in zip(indices, self.shape, strict=True):
            i = i.__index__()
            if not -n <= i < n:
                raise IndexError(f"index {indices} is outside of a register array {self.shape}")
            place = place * n + i % n
        return place

    def __getitem__(self, index: int | tuple[int, ...]) -> Number:
        return self.items[self._place(index)]

    def __setitem__(self, index: int | tuple[int, ...], value: Any) -> None:
        value = self.builder.coerce(value, self.type)
        if value.width == 1:
            value = self.builder.splat(value, self.type.width)
        if value.type != self.type:
            raise KernelTypeError(f"a register array of {self.type} does not hold {value.type}")
        self.items[self._place(index)] = value

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Number]:
        return iter(self.items)

    def __repr__(self) -> str:
        return f"<registers {self.shape} of {self.type}>"


def registers(
    shape: int | tuple[int, ...], dtype: DType, width: int = 1, fill: Any = 0
) -> Registers:
    """Return a register array with items of ``width`` lanes, filled with a number."""
    builder = current()
    shape = shape if isinstance(shape, tuple) else (shape,)
    first = builder.splat(builder.coerce(fill, Type(dtype)), width)
    return Registers(builder, shape, Type(dtype, width), first)
