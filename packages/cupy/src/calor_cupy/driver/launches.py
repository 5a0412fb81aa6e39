"""A recorded list of launches, with arguments in host memory.

Requirements: a run sets only changed arguments. Launches refer to their arguments by fixed
addresses, so a plugin may pass the same list to the driver as a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calor_cupy.driver.protocol import Driver
from calor_kernel.device.protocol import Slot, Step, scalar_bits
from calor_kernel.ir.nodes import Kernel

_CELL: Final = 8


@dataclass(frozen=True, slots=True)
class Function:
    """A loaded kernel, its module, and the dynamic shared memory of a launch."""

    function: int
    kernel: Kernel
    module: Any
    shared: int


class Recorded:
    """Launches with their scalars set; buffers that differ from the last run's are set by a run."""

    # The size and alignment of a plugin's blocks derived from addresses.
    block_bytes: int = 1

    def __init__(self, steps: Sequence[Step], stream: int) -> None:
        self.stream = stream
        self.empty = [0 in step.cubes for step in steps]
        steps = [s for s, empty in zip(steps, self.empty, strict=True) if not empty]
        # The functions whose cubes wait for each other, so that a launch starts all or none.
        kernels = {s.function.function: s.function.kernel for s in steps}
        self.together = frozenset(n for n, k in kernels.items() if k.attributes.get("together"))
        made = [self.blocks_of(s) for s in steps]
        total = sum(len(s.arguments) for s in steps)
        cells = np.zeros(max(total, 1), np.uint64)
        self.cells = cells
        self.blocks = np.zeros((sum(map(len, made)) + 1) * self.block_bytes, np.uint8)
        # Launches refer to their arguments by these fixed addresses.
        self.places = np.zeros(max(total + sum(map(len, made)), 1), np.uint64)
        # For each cell with derived blocks: their positions and descriptions.
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
        """Return a launch's blocks after its arguments: the source argument and a description."""
        return ()

    def block(self, address: int, said: Any) -> bytes:
        """Return a block derived from an address."""
        raise NotImplementedError

    def _launch(self, number: int, step: Step, place: int, first: int) -> None:
        """Add a launch, with its arguments from one cell on, and their pointers from another."""
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
        """Write the addresses that changed since the last write."""
        given = tuple(handles)
        before = self.handles or (None,) * len(given)
        # If a block fails, the written state is unknown.
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
        """Return the numbers of the launches with a changed argument."""
        return {
            number
            for slot, users in self.users.items()
            if before[slot] != given[slot]
            for _, _, number in users
        }


def load(driver: Driver, image: bytes, kernel: Kernel, name: str, most: int) -> Function:
    """Return the function of an image; ``most``: the shared memory allowed without opt-in."""
    module = driver.moduleLoadData(image)
    function = driver.moduleGetFunction(module, name)
    shared = kernel.shared_bytes if kernel.shared_bytes > most else 0
    if shared:
        limit = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        driver.funcSetAttribute(function, limit, shared)
    return Function(function, kernel, module, shared)
