"""Asynchronous copies to shared memory as inline PTX, for every language that takes it.

Requirements: only the function that a copy calls differs between languages: how it declares its
pointers, and how it gets an address in shared memory. (PTX ISA, 9.7.9.25.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from calor_kernel.ir.nodes import Block, Operation
from calor_kernel.printers import expressions as ex
from calor_kernel.printers.expressions import Expression
from calor_kernel.printers.printer import Printer, memory_of

# The bytes that one instruction copies.
_SIZES: Final = (4, 8, 16)
# Of the units' own copies.
_COMMIT: Final = "cp.async.commit_group"
_WAIT: Final = "cp.async.wait_group"

# Returns the text of a function with a name, and with an instruction that takes the place in shared
# memory, the address in global memory, and the bytes that are read: the rest become zeros.
Function = Callable[[str, str], str]


def statement(code: str) -> str:
    """Return an instruction as a statement that no access of memory moves across."""
    return f'asm volatile("{code};" ::: "memory");'


def copy(printer: Printer, operation: Operation, function: Function) -> None:
    """Print an asynchronous copy of 4, 8 or 16 bytes to shared memory."""
    source, target = operation.attributes["source"], memory_of(operation)
    nbytes = target.type.nbytes * operation.attributes["elements"]
    if nbytes not in _SIZES or (source.space, target.space) != ("global", "shared"):
        printer.dialect.refuse(f"asynchronous copies of {nbytes} bytes")
    to, of, *mask = (printer.operand(v) for v in operation.operands)
    printer.settle()
    places = [
        ex.prefix("&", printer.elements.place(memory, index))
        for memory, index in ((target, to), (source, of))
    ]
    taken = Expression(str(nbytes))
    if mask:
        taken = ex.choice(mask[0], taken, Expression("0"))
    # Only copies of 16 bytes can bypass the L1 cache.
    near = nbytes < 16 or operation.attributes.get("near", False)
    cache = "ca" if near else "cg"
    name = f"copy_async_{nbytes}{'_near' * (near and nbytes == 16)}"
    code = f"cp.async.{cache}.shared.global [%0], [%1], {nbytes}, %2;"
    printer.helpers.add(name, function(name, code))
    printer.line(f"{ex.call(name, *places, taken).text};")


def commit(printer: Printer, operation: Operation, block: Block) -> None:
    """Print the commit of a group of copies."""
    printer.settle()
    printer.line(statement(_COMMIT))


def wait(printer: Printer, operation: Operation, block: Block) -> None:
    """Print the wait for all but the latest groups."""
    printer.settle()
    printer.line(statement(f"{_WAIT} {operation.attributes['pending']}"))
