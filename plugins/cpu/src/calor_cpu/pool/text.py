"""The complete native text: templates filled with the offsets and constants of a system."""

from __future__ import annotations

from string import Template

from calor_cpu.pool.structures import offsets
from calor_cpu.pool.system import System
from calor_cpu.pool.text_forms import FILL
from calor_cpu.pool.text_plans import CALL, RUN
from calor_cpu.pool.text_threads import LAUNCH, TAKE, WORKER

# A run without the interpreter's lock checks every 50 ms for pending signals.
_SIGNALS_NS = 50_000_000
# Largest chunk as a part of a thread's share; small chunks balance unequal speeds.
_CHUNKS = 16
# Bits of a ticket for each of its two grain counts.
_BITS = 15


def text(system: System) -> str:
    """Return the LLVM text of the runtime for a system."""
    known = {**offsets(), **system.constants}
    known |= {"signals_ns": _SIGNALS_NS, "chunks_a_thread": _CHUNKS}
    known |= {"ticket_bits": _BITS, "ticket_less": _BITS - 1}
    known |= {"ticket_mask": (1 << _BITS) - 1, "ticket_place": (1 << 2 * _BITS) - 1}
    whole = system.text + WORKER + TAKE + LAUNCH + RUN + CALL + FILL
    return Template(whole).substitute(known).lstrip()
