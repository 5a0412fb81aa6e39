"""Operations with a printing function of CUDA C++'s own: matrices, copies and barriers.

Requirements: this module holds the operations of some processor generations; kernels query them by
device features.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from calor_cuda.cuda_cpp import asynchronous, tables, tma, warpgroups
from calor_kernel.ir.nodes import Block, Operation
from calor_kernel.printers.printer import Printer

if TYPE_CHECKING:
    from calor_kernel.printers.dialect import Statement


def _arrive(printer: Printer, operation: Operation, block: Block) -> None:
    """Print an arrival at a named barrier, without waiting."""
    said = operation.attributes
    printer.settle()
    printer.line(f'asm volatile("bar.arrive {said["name"]}, {said["count"]};" ::: "memory");')


def _await(printer: Printer, operation: Operation, block: Block) -> None:
    """Print the wait for the launches before."""
    printer.settle()
    for line in tables.AWAITED.splitlines():
        printer.lines.append(line)


STATEMENTS: Final[Mapping[str, Statement]] = MappingProxyType(
    {
        "arrive": _arrive,
        "await_launches": _await,
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
