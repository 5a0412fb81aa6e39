"""Which launches of a list begin late, on a device that starts launches while those before end.

Requirements: a kernel may read memory before it waits for the launches before it. That is correct
only if no earlier launch of the list writes the memory, whose addresses are known when it runs. Two
slots may be one buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from calor_kernel.device.protocol import Slot, Step
from calor_kernel.ir.nodes import Kernel
from calor_kernel.ir.passes.early import EARLY

Late = frozenset[int] | None
"""The launches of a list that do not begin early; None if none does."""


class EarlyReads:
    """The slots that each launch reads before it waits for others, and those that it may write.

    Launches without cubes do not count. ``kernels``: of the steps.
    """

    def __init__(self, steps: Sequence[Step], kernels: Sequence[Kernel]) -> None:
        kept = [(s, k) for s, k in zip(steps, kernels, strict=True) if 0 not in s.cubes]
        self.read = [_slots(step, kernel.attributes.get(EARLY, ())) for step, kernel in kept]
        self.written = [_slots(step, _writable(kernel)) for step, kernel in kept]
        self.any = any(self.read)

    def late(self, handles: Sequence[Any]) -> frozenset[int]:
        """Return the launches that begin when those before have ended, for these buffers."""
        found, written = [], set[Any]()
        for number, (slots, targets) in enumerate(zip(self.read, self.written, strict=True)):
            if not self.any:
                break
            if not written.isdisjoint(handles[slot] for slot in slots):
                found.append(number)
            written.update(handles[slot] for slot in targets)
        return frozenset(found)


def _slots(step: Step, numbers: Iterable[int]) -> tuple[int, ...]:
    """Return the slots of a launch's arguments by their numbers."""
    given = (step.arguments[n] for n in numbers)
    return tuple({one.number: None for one in given if isinstance(one, Slot)})


def _writable(kernel: Kernel) -> list[int]:
    """Return the numbers of the parameters whose memory a kernel may write."""
    parameters = enumerate(kernel.parameters)
    return [n for n, p in parameters if p.memory is not None and p.memory.writable]
