"""Tensor maps, whose boxes a device copies itself, and the barriers that count the copied bytes.

A copy of a box is one instruction and a descriptor on devices with a copy engine (TMA), and copies
by the units on others. A descriptor is computed from the launch's own arguments. A barrier in
shared memory (mbarrier) goes through phases; a wait names a phase by its parity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from calor.dtypes import uint64
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.types import Type
from calor_kernel.language.builder import Builder, current
from calor_kernel.language.division import offset_of, unravel
from calor_kernel.language.functions import barrier, unit_index
from calor_kernel.language.layouts import Layout, Swizzled
from calor_kernel.language.loops import DeviceRange, loop
from calor_kernel.language.memory import Pointer, shared
from calor_kernel.language.roles import clustered, has
from calor_kernel.language.statements import when
from calor_kernel.language.values import Number

# The largest side of a box in elements, a limit of descriptors.
_SIDE = 256
# The number of pieces that one unit copies without a loop.
_UNROLLED = 32
_PUTS = "tensor"


class Mbarriers:
    """``count`` barriers, each completing a phase after ``arrivals`` and the expected bytes.

    All units of the cube create them together. The phases of a barrier have the parities 0, 1, 0,
    …; waiting for parity 1 before the first phase ends returns at once. Each cube of a cluster has
    its own, and the others may arrive at it too. ``meet``: whether all units synchronize after the
    creation, which is required before the first use; for several created in a row, once at the last
    is enough.
    """

    __slots__ = ("count", "pointer")

    def __init__(self, count: int, arrivals: int, *, meet: bool = True) -> None:
        if not has("mbarrier"):
            raise KernelTypeError("the device has no barriers in memory; use barrier()")
        self.count = count
        self.pointer: Pointer = shared(count, uint64, align=8)

        def initialize() -> None:
            for i in range(count):
                self._emit("mbarrier_init", i, arrivals)

        when(unit_index() == 0, initialize)
        if meet:
            barrier("cluster" if clustered() else "cube")

    def expect(self, index: Any, nbytes: Any) -> None:
        """Expect bytes from copies in this phase, without arriving."""
        self._emit("mbarrier_expect", index, nbytes)

    def arrive(self, index: Any, *, rank: Any = None) -> None:
        """Arrive; the unit's earlier reads and writes happen before the end of the phase.

        ``rank``: the cube of the cluster that owns the barrier, by default this one. An arrival at
        another cube orders only reads of shared memory, not writes to other memory.
        """
        self._emit("mbarrier_arrive", index, *(() if rank is None else (rank,)))

    def wait(self, index: Any, parity: Any) -> None:
        """Wait for the end of the phase of a parity; earlier writes are visible afterwards."""
        self._emit("mbarrier_wait", index, parity)

    def place(self, index: Any) -> Number:
        """Return a barrier's index in its memory."""
        builder = current()
        return builder.coerce(index, Type(builder.index))

    def _emit(self, name: str, index: Any, *numbers: Any) -> None:
        builder, place = current(), self.place(index)
        operands = [place, *(builder.coerce(n, place.type) for n in numbers)]
        builder.emit(name, operands, memory=self.pointer.memory)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The host's recipe for a map: a buffer argument, and numbers or names of scalar arguments.

    ``sizes`` and ``strides`` are in elements, the fastest axis last. ``box`` is the size of one
    copy, and ``at`` its layout in shared memory. ``rounded``: whether float32 is rounded to TF32
    for matrix products.
    """

    name: str
    sizes: tuple[int | str, ...]
    strides: tuple[int | str, ...]
    box: tuple[int, ...]
    at: Layout | Swizzled
    rounded: bool = False

    @property
    def plain(self) -> tuple[Any, ...]:
        """The map as plain data: the swizzle as three numbers, or None."""
        swizzle = self.at.swizzle if isinstance(self.at, Swizzled) else None
        bits = swizzle and (swizzle.bits, swizzle.base, swizzle.shift)
        return self.name, self.sizes, self.strides, self.box, bits, self.rounded


@dataclass(slots=True, eq=False)
class TensorMap:
    """A tensor in global memory, copied box by box; made by :func:`tensor_map`."""

    pointer: Pointer
    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    box: tuple[int, ...]
    at: Layout | Swizzled
    rounded: bool = False

    @property
    def nbytes(self) -> int:
        """The bytes of a box."""
        return int(prod(self.box) * self.pointer.dtype.itemsize)

    def descriptor(self) -> Descriptor:
        """Return the host's recipe for the map; KernelTypeError if the host cannot compute it.

        The kernel's attribute "maps" lists the recipes for launches.
        """
        builder = current()
        if not isinstance(self.pointer.offset, int) or self.pointer.offset:
            raise KernelTypeError("a tensor map is of a whole buffer argument, from its index 0 on")
        if not (isinstance(self.strides[-1], int) and self.strides[-1] == 1):
            raise KernelTypeError("the last stride of a tensor map is 1")
        if max(self.box) > _SIDE:
            raise KernelTypeError(f"a box has at most {_SIDE} elements a side, not {self.box}")
        sizes, strides = (
            tuple(_named(builder, n) for n in given) for given in (self.sizes, self.strides)
        )
        name = self.pointer.memory.name
        made = Descriptor(name, sizes, strides, self.box, self.at, self.rounded)
        maps = builder.attributes.get("maps", ())
        if made.plain not in maps:
            builder.attributes["maps"] = (*maps, made.plain)
        return made

    def fetch(
        self,
        target: Pointer,
        position: Sequence[Any],
        barriers: Mbarriers,
        index: Any,
        *,
        cubes: int = 1,
    ) -> None:
        """Start copying the box at a position to shared memory; a barrier counts its bytes.

        One unit calls this, and expects ``nbytes`` at the barrier. ``target`` starts at a multiple
        of the layout's swizzle, and ``position`` at a multiple of 16 bytes along the last axis.
        ``cubes``: the number of cubes of a cluster that receive the box (multicast), each at the
        same address and counted at its own barrier.
        """
        builder = current()
        operands = self._operands(target, barriers.place(index), *position)
        said = {
            "source": self.pointer.memory,
            "barrier": barriers.pointer.memory,
            "map": self.descriptor(),
            **({"cubes": cubes} if cubes > 1 else {}),
        }
        if cubes not in (1, prod(builder.attributes.get("cluster", (1,)))):
            raise KernelTypeError(f"a box goes to one cube or to all of a cluster, not to {cubes}")
        builder.emit("copy_tensor", operands, (), said, memory=target.memory)

    def put(self, source: Pointer, position: Sequence[Any], unit: Any, units: int) -> None:
        """Copy a box from shared memory to a position, without the part outside the tensor.

        ``units`` units, of which this is ``unit``, call this after an unnamed barrier. They may
        reuse the source and the box after ``wait_puts``.
        """
        builder = current()
        if "tensor_copy" in builder.features and source.memory.space == "shared":
            when(unit == 0, lambda: self._put(source, position))
            return
        width = self.width(position)

        def move(index: Any, to: Any, mask: Any) -> None:
            self.pointer.store(to, source.load(index, width), mask=mask)

        self.share(position, unit, units, width, move)

    def _put(self, source: Pointer, position: Sequence[Any]) -> None:
        builder = current()
        operands = self._operands(source, *position)
        said = {"source": source.memory, "map": self.descriptor(), "group": _PUTS}
        builder.emit("store_tensor", operands, (), said, memory=self.pointer.memory)
        builder.emit("commit_async", (), (), {"group": _PUTS})

    def _operands(self, shared: Pointer, *numbers: Any) -> list[Number]:
        """Return an index of shared memory and numbers, with the sizes and strides, of one type."""
        builder = current()
        index = builder.coerce(shared.offset)
        rest = (*numbers, *self.sizes, *self.strides)
        return [index, *(builder.cast(n, index.dtype) for n in rest)]

    def share(
        self,
        position: Sequence[Any],
        unit: Any,
        units: int,
        width: int,
        move: Callable[[Any, Any, Any], None],
    ) -> None:
        """Have several units copy the box at a position, each its pieces of ``width`` elements.

        ``move(to, from, mask)`` copies a piece from an index of the tensor to an index of
        the target; a false mask gives zeros (None: always true). ``unit`` is this unit's index
        among ``units``.
        """

        count = prod(self.box) // width
        rounds = -(-count // units)

        def turn(i: Any) -> tuple[Any, ...]:
            number = unit + i * units

            def piece() -> None:
                place = unravel(number * width, self.box)
                there = [start + p for start, p in zip(position, place, strict=True)]
                mask = _inside(there, self.sizes)
                move(self.at(*place), offset_of(there, self.strides), mask)

            when(True if count % units == 0 else number < count, piece)
            return ()

        if rounds <= _UNROLLED:
            for i in range(rounds):
                turn(i)
        else:
            loop(DeviceRange(0, rounds, 1), turn, 0, (), ())

    def width(self, position: Sequence[Any]) -> int:
        """Return the elements per access, the most that bounds and alignment allow."""
        item = self.pointer.dtype.itemsize
        widest = max(16 // item, 1)
        if not (isinstance(self.strides[-1], int) and self.strides[-1] == 1):
            return 1
        # A piece that starts inside the bounds ends inside, at an address aligned for the access.
        common = gcd(self.box[-1], widest, *map(_divisor, (*position, self.sizes[-1])))
        common = gcd(common, *map(_divisor, (*self.strides[:-1], self.pointer.offset)))
        common = gcd(common, max(self.pointer.memory.align // item, 1))
        while common > 1 and not _dense(self.at, self.box, common):
            common //= 2
        return common


def tensor_map(
    pointer: Pointer,
    sizes: Sequence[Any],
    strides: Sequence[Any],
    box: Sequence[int],
    at: Layout | Swizzled | None = None,
    *,
    rounded: bool = False,
) -> TensorMap:
    """Return a map of a buffer argument.

    ``sizes`` and ``strides``, in elements, are numbers or arguments of the kernel. ``box``: the
    size of one copy. ``at``: the layout of a box in the target, by default row-major. ``rounded``:
    a copy engine may round float32 to TF32 for matrix products.
    """
    ranks = {len(sizes), len(strides), len(box)}
    if len(ranks) != 1 or not 1 <= len(box) <= 5:
        raise KernelTypeError(
            f"a tensor map has 1 to 5 sizes, and as many strides and sides of a box, not "
            f"{len(sizes)}, {len(strides)} and {len(box)}"
        )
    at = Layout.rows(*box) if at is None else at
    if at.size != prod(box):
        raise KernelTypeError(f"the layout {at} is not of a box of {tuple(box)}")
    return TensorMap(pointer, tuple(sizes), tuple(strides), tuple(box), at, rounded)


def wait_puts(pending: int = 0, *, read: bool = False) -> None:
    """Wait until this unit's boxes are written, all but the latest ``pending``.

    ``read``: wait only until they are read, which frees their shared memory.
    """
    builder = current()
    if "tensor_copy" in builder.features:
        said = {"group": _PUTS, "pending": pending}
        builder.emit("wait_async", (), (), {**said, "read": True} if read else said)


def _named(builder: Builder, number: Any) -> int | str:
    if isinstance(number, int):
        return number
    if isinstance(number, Number) and isinstance(number.known, int):
        return number.known
    name = builder.scalars.get(number)
    if name is None:
        raise KernelTypeError(
            "a tensor map's sizes and strides are numbers of Python or arguments of the kernel, "
            "because the host makes its descriptor"
        )
    return name


def _divisor(number: Any) -> int:
    return number.divisible if isinstance(number, Number) else abs(number)


def _inside(position: Sequence[Any], sizes: Sequence[Any]) -> Any:
    """Return whether a position lies in a tensor, None if always."""
    builder, found = current(), None
    for place, size in zip(position, sizes, strict=True):
        tests = [builder.binary("lt", *builder.pair(place, size))]
        if not getattr(place, "nonnegative", False):
            tests.append(builder.binary("ge", place, 0))
        for test in tests:
            found = test if found is None else builder.binary("and", found, test)
    return None if found is None or found.known is True else found


def _dense(at: Layout | Swizzled, box: tuple[int, ...], width: int) -> bool:
    """Return whether each run of ``width`` elements of a row is contiguous and aligned."""
    last = at.layout[-1] if isinstance(at, Swizzled) else at[-1]
    rest = at.layout if isinstance(at, Swizzled) else at
    if isinstance(at, Swizzled) and at.swizzle.bits and 1 << at.swizzle.base < width:
        return False
    dense = [last(i) for i in range(width)] == list(range(width))
    others = [s for mode in list(rest)[:-1] for n, s in mode.modes() if n > 1]
    steps = [last(i) for i in range(0, box[-1], width)]
    return dense and all(n % width == 0 for n in (*others, *steps))
