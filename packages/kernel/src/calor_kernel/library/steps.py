"""The launches of a work in progress, and their scratch memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from calor.dtypes import DType
from calor_kernel.contract.launching import Bound
from calor_kernel.contract.work import Launch, Scratch, Work


@dataclass
class Steps:
    """Launches so far, and their scratch memory."""

    launches: list[Launch] = field(default_factory=list)
    scratch: list[int] = field(default_factory=list)

    def memory(self, nbytes: int) -> Scratch:
        """Return a new piece of scratch memory."""
        self.scratch.append(nbytes)
        return Scratch(len(self.scratch) - 1)

    def room(self, count: int, dtype: DType) -> Bound:
        """Return new scratch memory for elements of a dtype."""
        return Bound(self.memory(count * dtype.itemsize), dtype)

    def work(self, variant: str = "") -> Work:
        """Return the launches as work."""
        return Work(tuple(self.launches), tuple(self.scratch), variant=variant)
