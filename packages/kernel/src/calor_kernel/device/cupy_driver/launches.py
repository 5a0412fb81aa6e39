"""A recorded list of launches, with arguments in the host's memory.

Requirements: a run sets no argument that is as it was; launches name their arguments by addresses
that never move, so that a plugin may hand the same list to the driver as a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calor_kernel.device.cupy_driver.protocol import Driver
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.device.scalars import scalar_bits
from calor_kernel.ir.nodes import Kernel

_CELL: Final = 8


@dataclass(frozen=True, slots=True)
class Function:
    """A loaded kernel, the module that it is of, and the shared memory that a launch brings."""

    function: int
    kernel: Kernel
    module: Any
    shared: int


class Recorded:
    """Launches with their scalars set; buffers are set where they differ from the last run's."""

    # The size of what a plugin makes of addresses, which begins at multiples of its size.
    block_bytes: int = 1

    def __init__(self, steps: Sequence[Step], stream: int) -> None:
        self.stream = stream
        self.empty = [0 in step.cubes for step in steps]
        steps = [s for s, empty in zip(steps, self.empty, strict=True) if not empty]
        made = [self.blocks_of(s) for s in steps]
        total = sum(len(s.arguments) for s in steps)
        cells = np.zeros(max(total, 1), np.uint64)
        self.cells = cells
        self.blocks = np.zeros((sum(map(len, made)) + 1) * self.block_bytes, np.uint8)
        # Launches name their arguments by the addresses of these, which never move.
        self.places = np.zeros(max(total + sum(map(len, made)), 1), np.uint64)
        # For each cell that has them: blocks that are made of its address, by where they are.
        self.made: dict[int, list[tuple[int, Any]]] = {}
        self.words = memoryview(cells.data).cast("B").cast("Q")
        # For each slot: the cells that hold it, with their offsets and launches.
        self.users: dict[int, list[tuple[int, int, int]]] = {}
        self.launches: list[tuple[int, ...]] = []
        place = first = 0
        block = -self.blocks.ctypes.data % self.block_bytes
        for number, (step, described) in enumerate(zip(steps, made, strict=True)):
            self._launch(number, step, place, first)
            first += len(step.arguments)
            for at, said in described:
                self.made.setdefault(place + at, []).append((block, said))
                self.places[first] = self.blocks.ctypes.data + block
                first, block = first + 1, block + self.block_bytes
            place += len(step.arguments)
        self.handles: tuple[Any, ...] = ()

    def blocks_of(self, step: Step) -> Sequence[tuple[int, Any]]:
        """Return what a launch takes behind its arguments: the argument it is made of, and how."""
        return ()

    def block(self, address: int, said: Any) -> bytes:
        """Return a block that is made of an address."""
        raise NotImplementedError

    def _launch(self, number: int, step: Step, place: int, first: int) -> None:
        """Take a launch, whose arguments are from a cell on, and named from another one on."""
        function: Function = step.function
        parameters = self.places.ctypes.data + first * _CELL
        end, count = first + len(step.arguments), len(step.arguments)
        self.places[first:end] = self.cells.ctypes.data + (place + np.arange(count)) * _CELL
        cube = function.kernel.cube
        shape = (*step.cubes, *cube, function.shared, self.stream, parameters, 0)
        self.launches.append((function.function, *shape))
        for parameter, given in zip(function.kernel.parameters, step.arguments, strict=True):
            if isinstance(given, Slot):
                self.users.setdefault(given.number, []).append((place, given.offset, number))
            else:
                self.cells[place] = scalar_bits(given, parameter.declared.dtype)
            place += 1

    def run(self, handles: Sequence[int], launch: Any) -> None:
        """Queue all launches, one by one."""
        self.put(handles)
        for one in self.launches:
            launch(*one)

    def put(self, handles: Sequence[int]) -> None:
        """Write the addresses that differ from those that were written last."""
        given = tuple(handles)
        before = self.handles or (None,) * len(given)
        # Where a block cannot be made, nothing is known to be written.
        self.handles = ()
        for slot, users in self.users.items():
            address = given[slot]
            if address != before[slot]:
                for place, offset, _ in users:
                    self.words[place] = address + offset
                    for block, said in self.made.get(place, ()) if self.made else ():
                        held = np.frombuffer(self.block(address + offset, said), np.uint8)
                        self.blocks[block : block + self.block_bytes] = held
        self.handles = given

    def changed(self, before: tuple[int, ...], given: tuple[int, ...]) -> set[int]:
        """Return the numbers of the launches of which an argument is another one."""
        return {
            number
            for slot, users in self.users.items()
            if before[slot] != given[slot]
            for _, _, number in users
        }


def load(driver: Driver, image: bytes, kernel: Kernel, name: str, most: int) -> Function:
    """Return the function of an image; ``most``: the shared memory that needs no asking."""
    module = driver.moduleLoadData(image)
    function = driver.moduleGetFunction(module, name)
    shared = kernel.shared_bytes if kernel.shared_bytes > most else 0
    if shared:
        limit = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        driver.funcSetAttribute(function, limit, shared)
    return Function(function, kernel, module, shared)
