"""The instructions of an object file's function: their text, and what memory each of them touches.

Requirements: binutils' objdump reads the code, as it ran; the text is what llvm-mca takes. Gathers
and scatters are instructions without memory, since stepping does not see the vectors of places.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from programs.stepping import SteppingError, Steps

_LINE = re.compile(r"^\s*([0-9a-f]+):\t(.*)$")
_SYMBOL = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_PLACE = re.compile(r"(-?0x[0-9a-f]+|-?\d+)?\((%\w+)?(?:,(%\w+)(?:,(\d))?)?\)")
_COPIES = re.compile(r"\{1to(\d+)\}")
# Bytes of registers by the letters of their names.
_WIDTHS = (("zmm", 64), ("ymm", 32), ("xmm", 16))
_ROWS, _ROW_BYTES = 16, 64
Words = np.ndarray[Any, np.dtype[np.uint64]]


@dataclass(frozen=True)
class Memory:
    """What an instruction touches: ``shift + base + index * scale``, so many bytes.

    ``rows``: how many times, each of which is the index register further. ``asks``: it only asks
    for a line; ``writes``, ``reads``: what it does otherwise.
    """

    shift: int
    base: str | None
    index: str | None
    scale: int
    nbytes: int
    rows: int = 1
    reads: bool = True
    writes: bool = False
    asks: bool = False

    def places(self, steps: Steps, chosen: np.ndarray[Any, Any]) -> Words:
        """Return the first byte at each of the chosen steps."""
        made = np.full(int(chosen.sum()), self.shift & (2**64 - 1), np.uint64)
        if self.base is not None:
            made += steps.of(self.base)[chosen]
        if self.index is not None and self.rows == 1:
            made += steps.of(self.index)[chosen] * np.uint64(self.scale)
        return made


@dataclass(frozen=True)
class Instruction:
    """An instruction: its distance from the function's first byte, its text, and its memory."""

    at: int
    text: str
    memory: Memory | None

    @property
    def name(self) -> str:
        """The mnemonic."""
        return self.text.split()[0]


def of_image(image: bytes, name: str) -> list[Instruction]:
    """Return the instructions of a function of an object file.

    Raises
    ------
    SteppingError
        If objdump is missing or finds no such function.
    """
    program = shutil.which("objdump")
    if program is None:
        raise SteppingError("there is no objdump; install GNU binutils")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.o")
        path.write_bytes(image)
        words = [program, "-d", "--no-show-raw-insn", str(path)]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return read(told, name)


def read(told: str, name: str) -> list[Instruction]:
    """Return the instructions of a function from objdump's text."""
    found: list[Instruction] = []
    start: int | None = None
    for line in told.splitlines():
        symbol = _SYMBOL.match(line)
        if symbol:
            start = int(symbol[1], 16) if symbol[2] == name else None
        taken = _LINE.match(line)
        if taken and start is not None:
            text = taken[2].partition("#")[0].partition("<")[0].strip()
            if text:
                found.append(Instruction(int(taken[1], 16) - start, text, _memory(text)))
    if not found:
        raise SteppingError(f"objdump finds no function {name} in its object file")
    return found


def _memory(text: str) -> Memory | None:
    name, _, operands = text.partition(" ")
    place = _PLACE.search(operands)
    if place is None or name.startswith(("lea", "nop", "call", "jmp")) or "%rip" in place[0]:
        return None
    shift = int(place[1], 0) if place[1] else 0
    base, index = (part and part.removeprefix("%") for part in (place[2], place[3]))
    if index is not None and index.startswith(("xmm", "ymm", "zmm")):
        return None
    if name.startswith("tile"):
        stores = name.startswith("tilestore")
        row = (shift, base, index, 1, _ROW_BYTES, _ROWS)
        return Memory(*row, reads=not stores, writes=stores)
    scale = int(place[4] or 1)
    last = operands.rstrip().endswith(place[0])
    if name.startswith("prefetch"):
        return Memory(shift, base, index, scale, 1, reads=False, asks=True)
    compares = name.startswith(("cmp", "test", "vucomi", "vcomi", "vptest"))
    writes = last and "," in operands.replace(place[0], "") and not compares
    writes = writes or (last and name.startswith(("inc", "dec", "neg", "not", "set")))
    moves = name.startswith(("mov", "vmov", "vpextr", "vextract", "set"))
    return Memory(
        shift, base, index, scale, _nbytes(name, operands), reads=not (writes and moves),
        writes=writes,
    )  # fmt: skip


def _nbytes(name: str, operands: str) -> int:
    """Return the bytes of an access: a register's, or one element's where it is copied."""
    wide = next((nbytes for part, nbytes in _WIDTHS if part in operands), 0)
    copies = _COPIES.search(operands)
    if copies:
        return wide // int(copies[1])
    if "broadcast" in name:
        tail = name.rsplit("broadcast", 1)[1]
        return {"ss": 4, "d": 4, "sd": 8, "q": 8, "w": 2, "b": 1}.get(tail, 16)
    if wide:
        single = {"ss": 4, "sd": 8, "vmovd": 4, "vmovq": 8}
        return next((n for part, n in single.items() if name.endswith(part)), wide)
    return 8


@dataclass(frozen=True)
class Touched:
    """Lines in the order in which steps touch them, and whether each only asks for it or writes."""

    lines: Words
    asks: np.ndarray[Any, np.dtype[np.bool_]]
    writes: np.ndarray[Any, np.dtype[np.bool_]]
    split: int


def touched(steps: Steps, function: int, instructions: Sequence[Instruction], line: int) -> Touched:
    """Return the lines of ``line`` bytes that steps of a function touch.

    ``split``: accesses that need two lines.
    """
    at = steps.of("rip") - np.uint64(function)
    parts: list[tuple[Words, Words, bool, bool]] = []
    split = 0
    for one in instructions:
        memory = one.memory
        chosen = at == np.uint64(one.at)
        if memory is None or not chosen.any():
            continue
        first, order = memory.places(steps, chosen), np.flatnonzero(chosen).astype(np.uint64)
        further = steps.of(memory.index)[chosen] if memory.index and memory.rows > 1 else None
        for row in range(memory.rows):
            place = first if further is None else first + further * np.uint64(row)
            begin = place // np.uint64(line)
            parts.append((order, begin, memory.asks, memory.writes))
            end = (place + np.uint64(memory.nbytes - 1)) // np.uint64(line)
            over = end != begin
            if over.any():
                split += int(over.sum())
                parts.append((order[over], end[over], memory.asks, memory.writes))
    if not parts:
        none = np.zeros(0, np.bool_)
        return Touched(np.zeros(0, np.uint64), none, none, 0)
    order = np.concatenate([part[0] for part in parts])
    sort = np.argsort(order, kind="stable")
    lines = np.concatenate([part[1] for part in parts])[sort]
    flags = [np.concatenate([np.full(len(p[0]), p[n]) for p in parts])[sort] for n in (2, 3)]
    return Touched(lines, flags[0], flags[1], split)


def counts(steps: Steps, function: int, instructions: Sequence[Instruction]) -> Mapping[int, int]:
    """Return how often each instruction ran, by its distance from the function's first byte."""
    at, number = np.unique(steps.of("rip") - np.uint64(function), return_counts=True)
    return dict(zip(at.tolist(), number.tolist(), strict=True))
