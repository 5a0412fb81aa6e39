"""The operations that CUDA C++ prints as a whole in its own way: matrices, copies and barriers.

Requirements: what one generation of processors has and another lacks stands here; kernels ask for
it by the features of a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from calor_kernel.ir.nodes import Block, Operation
from calor_kernel.printers.cuda_cpp import asynchronous, tma, warpgroups
from calor_kernel.printers.printer import Printer

if TYPE_CHECKING:
    from calor_kernel.printers.dialect import Statement


def _arrive(printer: Printer, operation: Operation, block: Block) -> None:
    """Print that a unit comes to a named barrier and goes on."""
    said = operation.attributes
    printer.settle()
    printer.line(f'asm volatile("bar.arrive {said["name"]}, {said["count"]};" ::: "memory");')


STATEMENTS: Final[Mapping[str, Statement]] = MappingProxyType(
    {
        "arrive": _arrive,
        "mma": asynchronous.mma,
        "load_matrix": asynchronous.load_matrix,
        "copy_async": asynchronous.copy,
        "commit_async": asynchronous.commit,
        "wait_async": asynchronous.wait,
        "mma_async": warpgroups.products,
        "mma_result": warpgroups.result,
        "mbarrier_init": tma.initialize,
        "mbarrier_expect": tma.expect,
        "mbarrier_arrive": tma.arrive,
        "mbarrier_wait": tma.wait,
        "copy_tensor": tma.copy,
        "store_tensor": tma.store,
        "barrier": tma.barrier,
        "role": tma.role,
    }
)
