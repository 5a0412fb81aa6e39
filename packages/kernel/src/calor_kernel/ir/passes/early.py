"""Early reads: the parameters whose memory a kernel reads before it awaits other launches."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation

AWAIT: Final = "await_launches"
EARLY: Final = "early"


def before_waiting(kernel: Kernel) -> list[Operation]:
    """Return the operations that precede the wait for other launches, none without a wait."""
    operations = kernel.body.operations
    places = [i for i, one in enumerate(operations) if one.name == AWAIT]
    return list(Block((), list(operations[: places[0]])).walk()) if places else []


def with_early_reads(kernel: Kernel) -> Kernel:
    """Return the kernel with the numbers of these parameters as its attribute "early".

    A device starts the kernel behind launches that write such memory only when these have ended.
    """
    operations = before_waiting(kernel)
    chosen: dict[Memory | None, tuple[Memory, ...]] = {
        one.memory: one.attributes["memories"]
        for one in kernel.body.walk()
        if one.name == "select_memory"
    }
    read: set[Memory | None] = set()
    for one in operations:
        if one.name == "load":
            read.update(chosen.get(one.memory, (one.memory,)))
    numbers = tuple(k for k, p in enumerate(kernel.parameters) if p.memory in read and p.memory)
    if not numbers:
        return kernel
    return replace(kernel, attributes={**kernel.attributes, EARLY: numbers})
