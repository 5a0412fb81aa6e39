"""Fences in WGSL, which are the barriers beside them.

Requirements: WGSL has no fence of one unit. As naga prints it for Vulkan, the barrier of storage
orders what all cubes see of memory that is declared coherent. So a fence that releases needs a
barrier of the cube between the stores before it and itself, and one that acquires needs a barrier
between itself and the loads behind it. Kernels without are refused.
"""

from __future__ import annotations

from typing import Final

from calor.errors import CompileError
from calor_kernel.ir.nodes import Block, Kernel, Operation

# Orders of a fence: those that need a barrier before it, those that need one behind it.
_BEFORE: Final = frozenset(("release", "acq_rel", "seq_cst"))
_BEHIND: Final = frozenset(("acquire", "acq_rel", "seq_cst"))
_LOOPS: Final = frozenset(("for", "while"))


def check_fences(kernel: Kernel) -> None:
    """Raise CompileError if a fence orders accesses of its unit that no barrier orders."""
    if has_fences(kernel):
        _Check(kernel.name, "store", _BEFORE, 1).block(kernel.body, False)
        _Check(kernel.name, "load", _BEHIND, -1).block(kernel.body, False)


def has_fences(kernel: Kernel) -> bool:
    """Return whether cubes of a launch hand over values."""
    return any(map(_is_fence, kernel.body.walk()))


def _is_fence(operation: Operation) -> bool:
    return operation.name == "fence" and operation.attributes.get("scope", "device") == "device"


class _Check:
    """Follows accesses up to fences, forwards or backwards (``step``), to find a barrier between.

    ``access``: the accesses that fences of the ``orders`` keep on their side.
    """

    def __init__(self, name: str, access: str, orders: frozenset[str], step: int) -> None:
        self.name, self.access, self.orders, self.step = name, access, orders, step

    def block(self, block: Block, open_: bool) -> bool:
        """Return whether an access without a barrier behind it reaches the end of a block."""
        for operation in block.operations[:: self.step]:
            open_ = self.operation(operation, open_)
        return open_

    def operation(self, operation: Operation, open_: bool) -> bool:
        """Return whether an access without a barrier behind it passes an operation."""
        name, said = operation.name, operation.attributes
        if _is_fence(operation) and open_ and said.get("order", "acq_rel") in self.orders:
            where = "before" if self.step > 0 else "behind"
            raise CompileError(
                f"kernel {self.name}: WGSL has no fence of one unit; put a barrier of the cube "
                f"{where} it"
            )
        if name == "barrier" and said.get("scope", "cube") == "cube":
            return False
        if operation.regions:
            return self.regions(operation, open_)
        memory = operation.memory
        plain = memory is not None and memory.space == "global" and not said.get("order")
        return open_ or (plain and name in (self.access, "copy_async"))

    def regions(self, operation: Operation, open_: bool) -> bool:
        """Return the same of an operation with regions: ways of a branch, or parts of a loop."""
        if operation.name not in _LOOPS:
            ends = [self.block(region, open_) for region in operation.regions]
            return any(ends) or (open_ and len(ends) < 2)
        # What the end of a part leaves open, any part may begin with.
        for _ in range(2):
            for region in operation.regions:
                open_ = self.block(region, open_) or open_
        return open_
