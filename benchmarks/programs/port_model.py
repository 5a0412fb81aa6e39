"""The cycles of a processor's ports for instructions in their numbers, by LLVM's llvm-mca.

Requirements: a block is instructions that ran equally often, one behind the other, as the turns of
a loop do. It is modelled as repeated, with all data in the first cache: what waits for memory is
not in these cycles.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from programs.instructions import Instruction
from programs.stepping import SteppingError

_JUMPS = ("j", "call", "ret")
_TURNS = 100
# Newer Xeons have two units for 512-bit multiply-adds, and their models in LLVM have one. The model
# of the first Xeon with AVX-512 has two, and two loads a cycle, as they have.
_TWO_UNITS = ("icelake-server", "sapphirerapids", "emeraldrapids", "graniterapids")
_ALIKE = "skylake-avx512"


@dataclass(frozen=True)
class Block:
    """Instructions that ran ``count`` times."""

    count: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Ports:
    """Cycles of all blocks; ``busy``: the share of them in which each port works, most first.

    ``instructions``: those of the blocks that the model knows, as a share of all.
    """

    cycles: float
    busy: dict[str, float] = field(default_factory=dict)
    instructions: float = 1.0


def blocks(instructions: Sequence[Instruction], counts: Mapping[int, int]) -> list[Block]:
    """Return the blocks of a function's instructions, those with most work first."""
    made: list[Block] = []
    lines: list[str] = []
    last = 0
    for one in instructions:
        count = counts.get(one.at, 0)
        if lines and count != last:
            made.append(Block(last, tuple(lines)))
            lines = []
        last = count
        if count and not one.name.startswith(_JUMPS[1:]):
            # A jump's target does not matter to the model, but has to be a name.
            lines.append(f"{one.name} target" if one.name.startswith("j") else one.text)
            if one.name.startswith("j"):
                made.append(Block(last, tuple(lines)))
                lines = []
    if lines:
        made.append(Block(last, tuple(lines)))
    return sorted(made, key=lambda block: -block.count * len(block.lines))


def program() -> str | None:
    """Return llvm-mca's path, None if it is not installed."""
    found = shutil.which("llvm-mca")
    versions = (shutil.which(f"llvm-mca-{number}") for number in range(30, 15, -1))
    return next((path for path in versions if path), found)


def modelled(parts: Sequence[Block], processor: str, most: float = 0.99) -> Ports:
    """Return the cycles of blocks on a processor of LLVM's name.

    Blocks are taken until they have the share ``most`` of all instructions.

    Raises
    ------
    SteppingError
        If llvm-mca is missing, or knows nothing of a processor or an instruction.
    """
    path = program()
    if path is None:
        raise SteppingError(
            "there is no llvm-mca; install LLVM, or take the stored file to a machine that has it "
            "(--ports FILE)"
        )
    whole = sum(block.count * len(block.lines) for block in parts)
    known, cycles = 0, 0.0
    busy: dict[str, float] = {}
    for block in parts:
        if known >= most * whole:
            break
        known += block.count * len(block.lines)
        turn, used = _turn(path, block.lines, processor)
        cycles += block.count * turn
        for port, amount in used.items():
            busy[port] = busy.get(port, 0.0) + block.count * amount
    cycles *= whole / max(known, 1)
    shares = {port: amount / cycles for port, amount in busy.items() if cycles}
    ordered = dict(sorted(shares.items(), key=lambda item: -item[1])[:4])
    return Ports(cycles, ordered, known / max(whole, 1))


def _turn(path: str, lines: Sequence[str], processor: str) -> tuple[float, dict[str, float]]:
    """Return the cycles of a block's turn, and those of each port."""
    model = _ALIKE if processor in _TWO_UNITS else processor
    words = [path, "-mtriple=x86_64", f"-mcpu={model}", f"-iterations={_TURNS}", "-json"]
    text = "\n".join(lines) + "\n"
    ran = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SteppingError(f"llvm-mca: {ran.stderr.strip()[:300]}")
    told = json.loads(ran.stdout)
    region = told["CodeRegions"][0]
    names = told["TargetInfo"]["Resources"]
    total = len(region["Instructions"])
    pressure = region["ResourcePressureView"]["ResourcePressureInfo"]
    used = {
        names[one["ResourceIndex"]]: float(one["ResourceUsage"])
        for one in pressure
        if one["InstructionIndex"] == total
    }
    return region["SummaryView"]["TotalCycles"] / _TURNS, used
