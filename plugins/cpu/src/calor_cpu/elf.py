"""Object files of x86-64 Linux, linked into this process without LLVM.

Requirements: a process whose kernels are all on disk does not load LLVM, whose library takes 40 MB
and a tenth of a second. LLVM writes kernels as position-independent code of the small code model,
so few kinds of relocation occur. Another kind is a typed error, and LLVM's linker takes the object.

Source: System V Application Binary Interface, AMD64 Architecture Processor Supplement, chapter 4.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

# Type, machine, offset of the table of sections, size and number of its entries.
_HEADER: Final = Struct("<16xHH20xQ10xHH")
_SECTION: Final = Struct("<IIQQQQIIQQ")
_SYMBOL: Final = Struct("<IBBHQQ")
_RELOCATION: Final = Struct("<QQq")
_RELOCATABLE, _X86_64 = 1, 62
_WRITABLE, _ALLOCATED = 1, 2
_SYMBOLS, _RELOCATIONS, _NOTE, _NO_BITS = 2, 4, 7, 8
_ABSOLUTE: Final = 0xFFF1
_PAGE: Final = mmap.PAGESIZE
# jmp [rip + 0], and the address behind it.
_JUMP: Final = b"\xff\x25\x00\x00\x00\x00"
_STUB: Final = 16
# Kinds of relocation: the whole address, a distance, that of a function, and that of the place
# where the address is.
_64, _PC32, _PLT32, _GOT = 1, 2, 4, (9, 41, 42)


class Unlinkable(Exception):
    """The object has something that this linker does not know."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int


def links_here() -> bool:
    """Return whether objects of this machine are of the kind that this module links."""
    return sys.platform.startswith("linux") and platform.machine() == "x86_64"


class Object:
    """The parts of a relocatable object file.

    Raises
    ------
    Unlinkable
        If the file is none for x86-64.
    """

    def __init__(self, image: bytes) -> None:
        self.image = image
        if image[:6] != b"\x7fELF\x02\x01":
            raise Unlinkable("it is no ELF file of 64 bits")
        kind, machine, table, entry, count = _HEADER.unpack_from(image)
        if (kind, machine, entry) != (_RELOCATABLE, _X86_64, _SECTION.size):
            raise Unlinkable("it is no object file for x86-64")
        self.sections = [
            _Section(*_SECTION.unpack_from(image, table + i * entry)) for i in range(count)
        ]
        self.symbols: list[_Symbol] = []
        for section in self.sections:
            if section.kind == _SYMBOLS:
                names = self.sections[section.link].offset
                for at in range(section.offset, section.offset + section.size, _SYMBOL.size):
                    name, _, _, where, value, _ = _SYMBOL.unpack_from(image, at)
                    self.symbols.append(_Symbol(self._text(names + name), where, value))

    def _text(self, at: int) -> str:
        return self.image[at : self.image.index(b"\0", at)].decode()

    def allocated(self) -> list[int]:
        """Return the numbers of the sections that are in memory, writable ones last."""
        found = [
            i
            for i, s in enumerate(self.sections)
            if s.flags & _ALLOCATED and s.size and s.kind != _NOTE
        ]
        return sorted(found, key=lambda i: self.sections[i].flags & _WRITABLE)

    def relocations(self) -> Iterator[tuple[int, int, int, _Symbol, int]]:
        """Yield the section, offset, kind, symbol and addend of each relocation in memory."""
        for section in self.sections:
            if section.kind != _RELOCATIONS or not self.sections[section.info].flags & _ALLOCATED:
                continue
            for at in range(section.offset, section.offset + section.size, _RELOCATION.size):
                offset, info, addend = _RELOCATION.unpack_from(self.image, at)
                yield section.info, offset, info & 0xFFFFFFFF, self.symbols[info >> 32], addend


class LinkedObject:
    """An object file in memory, which is freed with this.

    Parameters
    ----------
    image : bytes
        A relocatable object file for x86-64.
    find : callable
        Returns the address of an external symbol, by name; raises LookupError without one.

    Raises
    ------
    Unlinkable
        If the object has a relocation or a section that this linker does not know.
    LookupError
        If an external symbol has no address.
    """

    def __init__(self, image: bytes, find: Callable[[str], int]) -> None:
        self._object = Object(image)
        self._find = find
        self._places = self._laid_out()
        self._stubs: dict[str, int] = {}
        relocations = [*self._object.relocations()]
        if any(self._places.get(section) is None for section, *_ in relocations):
            raise Unlinkable("a relocation is outside of the memory")
        outside = {s.name for *_, s, _ in relocations if not s.section}
        # Stubs of external symbols follow the code; writable sections begin on a page of their own.
        self._first_stub = self._end
        writable = _rounded(self._end + _STUB * len(outside), _PAGE)
        for number in self._writable:
            self._places[number] += writable
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        size = writable + _rounded(self._more, _PAGE)
        self._memory: Any = mmap.mmap(-1, max(size, _PAGE), flags)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._copy()
        for section, offset, kind, symbol, addend in relocations:
            self._relocate(self._places[section] + offset, kind, symbol, addend)
        self._protect(max(writable, _PAGE))
        defined = (s for s in self._object.symbols if s.name and s.section in self._places)
        self._addresses = {s.name: self._address(s) for s in defined}
        del self._object, self._find

    def __getitem__(self, name: str) -> int:
        """Return the address of a symbol that the object defines; KeyError."""
        return self._addresses[name]

    def _laid_out(self) -> dict[int, int]:
        """Return the offset of each section; those of writable ones count from their own start."""
        places: dict[int, int] = {}
        self._writable: list[int] = []
        self._end = self._more = 0
        for number in self._object.allocated():
            section = self._object.sections[number]
            if section.flags & _WRITABLE:
                places[number] = _rounded(self._more, section.align)
                self._more = places[number] + section.size
                self._writable.append(number)
            else:
                places[number] = _rounded(self._end, section.align)
                self._end = places[number] + section.size
        self._end = _rounded(self._end, _STUB)
        return places

    def _copy(self) -> None:
        for number, place in self._places.items():
            section = self._object.sections[number]
            if section.kind != _NO_BITS:
                data = self._object.image[section.offset : section.offset + section.size]
                self._memory[place : place + section.size] = data

    def _address(self, symbol: _Symbol) -> int:
        if symbol.section == _ABSOLUTE:
            return symbol.value
        place = self._places.get(symbol.section)
        if place is None:
            raise Unlinkable(f"{symbol.name} is in no section of the memory")
        return self._base + place + symbol.value

    def _stub(self, name: str) -> int:
        """Return the address of a jump to an external symbol; its address is at the end."""
        if name not in self._stubs:
            at = self._first_stub + _STUB * len(self._stubs)
            self._stubs[name] = self._base + at
            code = _JUMP + self._find(name).to_bytes(8, "little")
            self._memory[at : at + len(code)] = code
        return self._stubs[name]

    def _relocate(self, at: int, kind: int, symbol: _Symbol, addend: int) -> None:
        here = self._base + at
        if kind == _64:
            value = self._address(symbol) if symbol.section else self._find(symbol.name)
            self._memory[at : at + 8] = (value + addend).to_bytes(8, "little")
            return
        if kind in _GOT:
            if symbol.section:
                raise Unlinkable("the address of an own symbol is read from a table")
            value = self._stub(symbol.name) + len(_JUMP)
        elif kind == _PLT32 or (kind == _PC32 and symbol.section):
            value = self._address(symbol) if symbol.section else self._stub(symbol.name)
        else:
            raise Unlinkable(f"relocation {kind} of {symbol.name}")
        self._memory[at : at + 4] = (value + addend - here).to_bytes(4, "little", signed=True)

    def _protect(self, nbytes: int) -> None:
        """Make the code executable and no longer writable."""
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if protect(self._base, nbytes, mmap.PROT_READ | mmap.PROT_EXEC):
            raise Unlinkable(f"the system permits no new code (errno {ctypes.get_errno()})")


def _rounded(number: int, to: int) -> int:
    return -(-number // max(to, 1)) * max(to, 1)
