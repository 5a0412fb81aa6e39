"""Asynchronous copies of a unit's own elements to shared memory.

Requirements: a unit that reads what it copied itself needs no barrier, and copies in flight occupy
no registers. Elements are visible to the unit after its wait, to others after a barrier behind it.

    copy_ahead(room, unit, x, unit); commit_ahead()
    … wait_ahead(); room[unit] …
"""

from __future__ import annotations

from typing import Any, Final

from calor_kernel.language.builder import current
from calor_kernel.language.memory import Pointer

# The group of such copies in the IR; those of a pipeline have another one.
OWN: Final = "own"


def copy_ahead(
    target: Pointer, to: Any, source: Pointer, index: Any, width: int = 1, mask: Any = None
) -> None:
    """Start copying ``width`` elements, of 4, 8 or 16 bytes, to an index of shared memory.

    A copy that ``mask`` excludes reads nothing and stores zeros. Source and target are aligned to
    the bytes of a copy.
    """
    emit_copy(target, to, source, index, width, mask, {"group": OWN})


def commit_ahead() -> None:
    """Make a group of this unit's copies since the last one, possibly of none."""
    current().emit("commit_async", (), (), {"group": OWN})


def wait_ahead(pending: int = 0) -> None:
    """Wait for this unit's groups of copies, all but the latest ``pending``."""
    current().emit("wait_async", (), (), {"group": OWN, "pending": pending})


def emit_copy(
    target: Pointer,
    to: Any,
    source: Pointer,
    index: Any,
    width: int,
    mask: Any,
    said: dict[str, Any],
) -> None:
    """Emit a copy with further attributes."""
    builder = current()
    operands = [target._index(to), source._index(index)]
    if mask is not None:
        operands.append(builder.coerce(mask))
    attributes = {"source": source.memory, "elements": width, **said}
    builder.emit("copy_async", operands, (), attributes, memory=target.memory)
