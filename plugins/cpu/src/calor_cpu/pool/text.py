"""The whole native text: templates with the offsets and constants of a system filled in."""

from __future__ import annotations

from string import Template

from calor_cpu.pool.structures import offsets
from calor_cpu.pool.system import System
from calor_cpu.pool.text_forms import FILL
from calor_cpu.pool.text_plans import CALL, RUN
from calor_cpu.pool.text_threads import LAUNCH, TAKE, WORKER

# A run without the interpreter's lock asks every 50 ms whether a signal's handler wants to run.
_SIGNALS_NS = 50_000_000
# A chunk is no larger than such a part of a thread's share, which levels out unequal speeds.
_CHUNKS = 16
# Bits of a ticket for each of its two numbers of grains.
_BITS = 15


def text(system: System) -> str:
    """Return the LLVM text of the runtime for a system."""
    known = {**offsets(), **system.constants}
    known |= {"signals_ns": _SIGNALS_NS, "chunks_a_thread": _CHUNKS}
    known |= {"ticket_bits": _BITS, "ticket_less": _BITS - 1}
    known |= {"ticket_mask": (1 << _BITS) - 1, "ticket_place": (1 << 2 * _BITS) - 1}
    whole = system.text + WORKER + TAKE + LAUNCH + RUN + CALL + FILL
    return Template(whole).substitute(known).lstrip()
