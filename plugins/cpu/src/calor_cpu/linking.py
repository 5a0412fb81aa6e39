"""Object files as code in this process.

Requirements: objects of x86-64 Linux are linked without LLVM, so that a process whose kernels are
on disk does not load it; LLVM's JITLink takes all others. Code lives as long as its library.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import count
from typing import Any, Final, Protocol

from calor_cpu.elf import LinkedObject, Unlinkable, links_here

_NUMBERS: Final = count()


class Library(Protocol):
    """Linked code."""

    def __getitem__(self, name: str) -> int:
        """Return the address of an exported symbol."""


def link(image: bytes, exports: Iterable[str], symbols: Mapping[str, int] | None = None) -> Library:
    """Link an object file.

    Parameters
    ----------
    image : bytes
        The object file, for this machine.
    exports : iterable of str
        The symbols of the object whose addresses are asked for.
    symbols : mapping of str to int, optional
        The addresses of external symbols. Left out, they are found in the process.

    Returns
    -------
    Library
        The addresses by name; the code is unloaded with it.

    Raises
    ------
    RuntimeError
        If a symbol has no address, or the object does not link.
    """
    if links_here():
        find = _in_process if symbols is None else symbols.__getitem__
        try:
            return LinkedObject(image, find)
        except LookupError as error:
            raise RuntimeError(f"the symbol {error.args[0]} has no address") from error
        except Unlinkable:
            pass
    return _by_llvm(image, exports, symbols)


def symbol_address(name: str) -> int:
    """Return the address of a function of the operating system in this process."""
    names = (None,) if sys.platform != "win32" else ("api-ms-win-core-synch-l1-2-0", "kernel32")
    for library in map(ctypes.CDLL, names):
        if hasattr(library, name):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    raise OSError(f"the function {name} does not exist on this system")


def _in_process(name: str) -> int:
    try:
        return symbol_address(name)
    except OSError:
        raise LookupError(name) from None


def _by_llvm(image: bytes, exports: Iterable[str], symbols: Mapping[str, int] | None) -> Library:
    from calor_cpu.llvm import binding

    builder = binding().JITLibraryBuilder().add_object_img(image)
    if symbols is None:
        builder.add_current_process()
    for name, address in (symbols or {}).items():
        builder.import_symbol(name, address)
    for name in exports:
        builder.export_symbol(name)
    library: Library = builder.link(_linker(), f"calor-cpu-{next(_NUMBERS)}")
    return library


@cache
def _linker() -> Any:
    from calor_cpu.llvm import binding

    # JITLink keeps the sections of an object together, so that they reach each other in a process
    # with much memory too. On Windows, LLVM's older linker is better maintained.
    return binding().create_lljit_compiler(use_jit_link=sys.platform != "win32")
