"""Why a launch is slow, in words, by rules over its hardware counters.

The rules ask in order: is a unit near its peak; do the multiprocessors have work; if both are not
so, what do the warps wait for. The first that holds is the reason, and the others that hold follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from harness import report
from programs.hardware_counters import Counters

# A unit that is used this much limits a launch, since a kernel hardly keeps one at its peak.
_NEAR: Final = 0.6
# More traffic than counted is worth a word from here on, where a unit is used as much.
_MORE: Final = 1.5
_BESIDE: Final = 0.3
# A multiprocessor without work for this share of the time is one.
_BUSY: Final = 0.75
# Waves of cubes, beside whole ones: the last one is partly empty.
_WAVES: Final = 0.85
# A scheduler that could issue this seldom waits for its warps.
_ISSUING: Final = 0.6

STALLS: Final = {
    "long_scoreboard": "reads of memory or of the L2 cache",
    "short_scoreboard": "shared memory and special functions",
    "mio_throttle": "the queue of shared memory and special functions",
    "lg_throttle": "the queue of reads and writes of memory",
    "tex_throttle": "the queue of the texture unit",
    "barrier": "other warps of their cube at a barrier",
    "membar": "a memory fence",
    "wait": "the fixed latency of the instruction before",
    "math_pipe_throttle": "a busy arithmetic pipe",
    "gmma": "matrix instructions of their warpgroup",
    "no_instruction": "instructions that are not in the cache",
    "imc_miss": "constants that are not in the cache",
    "branch_resolving": "the target of a branch",
    "dispatch_stall": "the dispatcher",
    "drain": "their writes at their end",
    "sleeping": "their own sleep",
    "not_selected": "their turn, other warps being ready",
    "misc": "what has no name",
}
PIPES: Final = {
    "alu": "integer, logic and comparison",
    "fma": "multiply-add",
    "fmaheavy": "multiply-add and integer multiplication",
    "fmalite": "multiply-add",
    "fp16": "half precision",
    "fp64": "float64",
    "lsu": "memory access",
    "tma": "TMA",
    "uniform": "uniform",
    "xu": "special function and conversion",
    "cbu": "convergence",
    "adu": "branch, barrier and constant",
}


def reason(counted: Counters, launch: Mapping[str, Any], cores: int) -> str:
    """Return why a launch takes its time.

    ``launch``: as a census has it, with its least traffic in bytes. ``cores``: the multiprocessors
    of the GPU.
    """
    near = [*_near(counted)]
    found = [*near, *_unfilled(counted, cores)]
    if not near and (counted.issue or 0.0) < _ISSUING:
        found += _waiting(counted)
    found += _excess(counted, int(launch["bytes"]))
    return "; ".join(found) or "no counter says why"


def _percent(share: float) -> str:
    return f"{share:.0%}"


def _near(c: Counters) -> Iterator[str]:
    """Yield the units near their peak."""
    units = [
        (c.dram, "DRAM"),
        (c.tensor, "matrix units"),
        (c.l2, "L2 cache"),
        (c.l1, "L1 cache and shared memory"),
        (c.issue, "instruction issue"),
        *(
            (share, f"pipe of {PIPES[name]} instructions")
            for name, share in c.pipes.items()
            if name in PIPES
        ),
    ]
    near = sorted(((s, name) for s, name in units if s is not None and s >= _NEAR), reverse=True)
    for share, name in near[:3]:
        yield f"{name} at {_percent(share)}"


def _unfilled(c: Counters, cores: int) -> Iterator[str]:
    """Yield that multiprocessors are without work."""
    cubes = math.prod(c.grid)
    waves = c.waves or 1.0
    if cubes < _BUSY * cores:
        yield f"too few cubes: {cubes} on {cores} multiprocessors"
    elif waves > 1 and waves / math.ceil(waves) < _WAVES:
        yield f"{waves:.2g} waves: the last one fills {_percent(waves % 1)} of the GPU"
    elif c.busy is not None and c.busy < _BUSY:
        yield f"multiprocessors have work {_percent(c.busy)} of the time"


def _waiting(c: Counters) -> Iterator[str]:
    """Yield what warps wait for, and what allows no more of them."""
    stalls = [(s, STALLS.get(name, name.replace("_", " "))) for name, s in c.stalls.items()]
    told = [f"{name} ({_percent(s)})" for s, name in stalls if s >= 0.15][:2]
    if told:
        issue = "" if c.issue is None else f"issue in {_percent(c.issue)} of the cycles: "
        yield f"{issue}warps wait for {' and '.join(told)}"
    if c.possible is not None and c.possible < 0.5 and c.limits:
        name, least = min(c.limits.items(), key=lambda item: item[1])
        word = {"shared_mem": "shared memory", "warps": "the size of cubes"}.get(name, name)
        if name == "registers" and c.registers:
            word = f"{c.registers:.0f} registers"
        share = _percent(c.possible)
        cubes = "cube" if least == 1 else "cubes"
        yield f"{word} allow {least:.0f} {cubes} a multiprocessor, {share} of its warps"
    elif c.occupancy is not None and c.possible and c.occupancy < 0.6 * c.possible:
        yield f"{_percent(c.occupancy)} of the warps there, {_percent(c.possible)} possible"


def _excess(c: Counters, nbytes: int) -> Iterator[str]:
    """Yield that there are more instructions or bytes than the least."""
    if c.spills:
        yield "registers spill"
    if nbytes <= 0:
        return
    if c.instructions and (c.issue or 0.0) >= _ISSUING:
        yield f"{32 * c.instructions / nbytes:.2g} instructions of a unit for a byte"
    traffic = ((c.dram, c.dram_bytes, "DRAM"), (c.l2, c.l2_bytes, "the L2 cache"))
    for share, moved, name in traffic:
        if moved and (share or 0.0) >= _BESIDE and moved > _MORE * nbytes:
            yield f"{name} moves {moved / nbytes:.2g} times the least bytes"


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield two lines for each launch: its counters, and the reason."""
    yield (
        f"{'share':>6} {'of it':>5} {'time':>8} {'DRAM':>5} {'L2':>5} {'L1':>5} {'tensor':>6} "
        f"{'issue':>5} {'busy':>5} {'warps':>5} {'waves':>6} {'regs':>4}  op, kernel: results"
    )
    for row in rows:
        c = row["counters"]
        shares = (c["dram"], c["l2"], c["l1"], c["tensor"], c["issue"], c["busy"], c["occupancy"])
        cells = ["-" if share is None else _percent(share) for share in shares]
        waves = "-" if c["waves"] is None else f"{c['waves']:.2f}"
        registers = "-" if c["registers"] is None else f"{c['registers']:.0f}"
        results = ", ".join(row["results"][:2])
        yield (
            f"{row['share']:>6.1%} {row['of_ceiling']:>5.0%} {report.seconds(c['seconds']):>8} "
            f"{cells[0]:>5} {cells[1]:>5} {cells[2]:>5} {cells[3]:>6} {cells[4]:>5} {cells[5]:>5} "
            f"{cells[6]:>5} {waves:>6} {registers:>4}  {row['op']}, {row['kernel']}: {results}"
        )
        yield f"       {row['why']}"
