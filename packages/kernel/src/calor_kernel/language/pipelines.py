"""Pipelines: multi-stage buffering in shared memory, in the same way for every device.

A pipeline becomes copy engines with barriers in memory, asynchronous copies in groups, loads to
registers with later stores, or plain copies for a single unit. No data is visible before ``wait``,
and no stage is written before all units have released it; lanes checks both.

    pipe = Pipeline(3, Tile(float16, a_at), Tile(float16, b_at))
    for t in range(2):                          # ahead
        pipe.acquire(); pipe.copy_box(0, a_map, (…)); …; pipe.commit()
    for t in range(n):
        pipe.wait()
        pipe.acquire()                          # before the work, which saves a barrier
        if t + 2 < n: pipe.copy_box(0, a_map, (…)); …
        pipe.commit()
        … pipe.stage(0) …
        pipe.release()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from calor.dtypes import DType, bool_
from calor_kernel.errors import KernelTypeError
from calor_kernel.language.builder import current
from calor_kernel.language.copies import emit_copy
from calor_kernel.language.functions import barrier, lane_position, select, unit_index
from calor_kernel.language.layouts import Layout, Swizzled
from calor_kernel.language.memory import Pointer, Registers, private, registers, shared
from calor_kernel.language.roles import has, units_of
from calor_kernel.language.statements import when
from calor_kernel.language.tensor_maps import Mbarriers, TensorMap

How = Literal["engine", "async", "stores", "direct"]
_NEEDS: Final = {"engine": ("tensor_copy", "mbarrier"), "async": ("async_copy",)}
_GROUP = "pipeline"


@dataclass(frozen=True, slots=True)
class Tile:
    """The contents of a stage: elements of a dtype, and the layout of a box.

    ``align``: the alignment of a stage in bytes.
    """

    dtype: DType
    at: Layout | Swizzled
    align: int = 128

    @property
    def size(self) -> int:
        """The elements of a stage, padded so that the next stage has the same swizzle."""
        step = max(self.align // self.dtype.itemsize, 1)
        return int(-(-self.at.cosize // step) * step)

    @property
    def box(self) -> tuple[int, ...]:
        """The size of the box along each axis."""
        layout = self.at.layout if isinstance(self.at, Swizzled) else self.at
        return tuple(mode.size for mode in layout)


class Pipeline:
    """``stages`` slots for each tile, filled by producers and emptied by consumers in turn.

    ``producers`` and ``consumers``: (first, count) of the units, by default all. If they differ
    they are roles, and the device needs barriers in memory. ``how``: the way of copying, by default
    chosen by the device's features; "stores" loads in ``copy`` and stores when a stage of the round
    is released. Every unit of the cube creates the pipeline.
    """

    def __init__(
        self,
        stages: int,
        *tiles: Tile,
        producers: tuple[int, int] | None = None,
        consumers: tuple[int, int] | None = None,
        how: How | None = None,
    ) -> None:
        builder = current()
        units = units_of(builder)
        everyone = (0, units)
        self.stages = stages
        self.tiles = tiles
        self.producers = producers or everyone
        self.consumers = consumers or everyone
        self.how = how or _choose(units)
        self._check(units)
        space = shared if units > 1 else private
        self.memory = [space(stages * t.size, t.dtype, align=t.align) for t in tiles]
        index = builder.index
        # The next stage to fill and to read, and the phase parity of the barriers.
        self.filling = registers(2, index)
        self.working = registers(2, index)
        # Whether units may still read a released stage, since the last barrier.
        self.dirty = registers(1, bool_, 1, False)
        # For "stores": the loads since a stage was acquired, and the block of that acquire.
        self.loaded: list[tuple[Pointer, Any, Any, Any]] = []
        self.block = builder.block
        self.full = self.empty = None
        if self.counted:
            self.full = Mbarriers(stages, 1 if self.how == "engine" else self.producers[1])
            self.empty = Mbarriers(stages, -(-self.consumers[1] // builder.plane))

    @property
    def counted(self) -> bool:
        """Whether barriers in memory synchronize the stages."""
        return self.how == "engine" or self.producers != self.consumers

    def _check(self, units: int) -> None:
        for feature in _NEEDS.get(self.how, ()):
            if not has(feature):
                raise KernelTypeError(f"a pipeline by {self.how!r} needs the feature {feature!r}")
        if self.how == "direct" and units > 1 and not self.counted:
            raise KernelTypeError("a pipeline of direct copies is for a single unit")
        if self.counted and self.how in ("async", "stores"):
            raise KernelTypeError(f"roles copy by 'engine' or 'direct', not by {self.how!r}")
        planes = current().plane
        if self.counted and self.consumers[1] % planes:
            raise KernelTypeError(f"consumers are whole planes of {planes} units")

    # Producers.
    def acquire(self) -> None:
        """Wait until the next stage is free; the following copies go to it."""
        self.loaded, self.block = [], current().block
        if self.empty is not None:
            self.empty.wait(self.filling[0], self.filling[1] ^ 1)
        # If the build does not know that a barrier came in between, it adds one.
        elif self.how != "direct" and self.dirty[0].known is not False:
            barrier("cube")
            self.dirty[0] = False

    def target(self, tile: int) -> Pointer:
        """Return the memory of a tile in the stage being filled."""
        return self.memory[tile].at(self.filling[0] * self.tiles[tile].size)

    def copy(
        self,
        tile: int,
        to: Any,
        source: Pointer,
        index: Any,
        width: int = 1,
        mask: Any = None,
        *,
        near: bool = False,
        among: Any = None,
    ) -> None:
        """Copy ``width`` elements from an index of the source to an index of the tile.

        Masked-off elements become zeros. ``near``: whether to keep them in the nearest cache, for
        later copies by the same cube. ``among``: whether this producer copies at all; a branch of
        the caller would have each load wait for its own store. Each producer copies its own
        elements; not for a copy engine. A synchronous copy converts to the tile's dtype.
        """
        if self.how == "engine":
            raise KernelTypeError("a copy engine copies boxes; write copy_box, or choose how=")
        if among is not None:
            if self.how != "stores":
                one = partial(self.copy, tile, to, source, index, width, mask, near=near)
                when(among, one)
                return
            mask = among if mask is None else mask & among
        target = self.target(tile)
        nbytes = width * source.dtype.itemsize
        if self.how == "async" and nbytes in (4, 8, 16):
            said: dict[str, Any] = {"group": _GROUP, **({"near": True} if near else {})}
            emit_copy(target, to, source, index, width, mask, said)
            return
        self._put(target, to, source.load(index, width, mask=mask), among)

    def put(self, tile: int, to: Any, value: Any, among: Any = None) -> None:
        """Store a loaded value to an index of the tile; "stores" does it after the round's work.

        ``among``: whether this producer stores at all.
        """
        self._put(self.target(tile), to, value, among)

    def _put(self, target: Pointer, to: Any, value: Any, among: Any = None) -> None:
        # A branch alone knows its loads.
        if self.how == "stores" and current().block is self.block:
            self.loaded.append((target, to, value, among))
        else:
            _store(target, to, value, among)

    def copy_box(self, tile: int, source: TensorMap, position: Sequence[Any]) -> None:
        """Copy the box at a position, with zeros outside the tensor; all producers call this."""
        if source.box != self.tiles[tile].box:
            raise KernelTypeError(
                f"a box of {source.box} is copied to a tile of {self.tiles[tile].box}"
            )
        if self.how != "engine":
            width, pointer = source.width(position), source.pointer

            def move(to: Any, index: Any, mask: Any) -> None:
                self.copy(tile, to, pointer, index, width, mask)

            first, units = self.producers
            unit: Any = unit_index() - first if first else unit_index()
            source.share(position, unit, units, width, move)
            return
        full = self.full
        assert full is not None

        def issue() -> None:
            full.expect(self.filling[0], source.nbytes)
            source.fetch(self.target(tile), position, full, self.filling[0])

        when(unit_index() == self.producers[0], issue)

    def commit(self, later: bool = False) -> None:
        """Mark the stage as in flight, with all copies since ``acquire``, or none.

        ``later``: whether a stage is released before the round ends; the device may store then.
        """
        if not later:
            self._store_loaded()
        if self.full is not None:
            arrives: Any = unit_index() == self.producers[0] if self.how == "engine" else True
            when(arrives, partial(self.full.arrive, self.filling[0]))
        elif self.how == "async":
            current().emit("commit_async", (), (), {"group": _GROUP})
        self._advance(self.filling)

    # Consumers.
    def wait(self, pending: int | None = None) -> None:
        """Wait until the oldest stage has arrived; every consumer sees all of it.

        ``pending``: the number of later commits that may still be in flight, by default all but two
        of the stages, which suits a round that waits first and commits once. Only asynchronous
        copies use it.
        """
        if self.full is not None:
            self.full.wait(self.working[0], self.working[1])
            return
        if self.how == "async":
            pending = max(self.stages - 2, 0) if pending is None else pending
            current().emit("wait_async", (), (), {"group": _GROUP, "pending": pending})
        if self.how != "direct":
            barrier("cube")
            self.dirty[0] = False

    def stage(self, tile: int) -> Pointer:
        """Return the memory of a tile in the stage being read."""
        return self.memory[tile].at(self.working[0] * self.tiles[tile].size)

    def release(self) -> None:
        """Signal that this unit is done with the stage, which may be filled again."""
        self._store_loaded()
        if self.empty is not None:
            barrier("plane")
            when(lane_position() == 0, partial(self.empty.arrive, self.working[0]))
        else:
            self.dirty[0] = True
        self._advance(self.working)

    # Helpers.
    def _advance(self, state: Registers) -> None:
        later = state[0] + 1
        last = later == self.stages
        state[0] = select(last, 0, later)
        state[0].nonnegative = True
        state[1] = select(last, state[1] ^ 1, state[1])

    def _store_loaded(self) -> None:
        """Store the loaded elements, for the way "stores"."""
        for loaded in self.loaded:
            # The conversion is here, not at the load, because it waits for the loaded value.
            _store(*loaded)
        self.loaded = []


def _store(target: Pointer, to: Any, value: Any, among: Any) -> None:
    """Store a loaded value, converted to the target's dtype; ``among``: whether to store it."""

    def store() -> None:
        target.store(to, value.to(target.dtype))

    if among is None:
        store()
    else:
        when(among, store)


def _choose(units: int) -> How:
    if units == 1:
        return "direct"
    return "engine" if has("tensor_copy") and has("mbarrier") else way_of_units()


def way_of_units() -> How:
    """Return how units copy pieces themselves: asynchronously, or by loads and stores."""
    return "async" if has("async_copy") else "stores"
