"""The suite's self-test: backends that are broken on purpose, each of which it has to catch."""

from __future__ import annotations

from . import (
    blocks,
    buffers,
    capabilities,
    compilers,
    composites,
    control,
    errors,
    indices,
    integers,
    memory,
    numbers,
    programs,
    randomness,
    reductions,
    rounding,
    running_out,
    shapes,
    threads,
    thresholds,
    training,
    unread,
    views,
)
from .base import Fault

FAULTS: tuple[Fault, ...] = (
    *numbers.FAULTS,
    *integers.FAULTS,
    *shapes.FAULTS,
    *indices.FAULTS,
    *blocks.FAULTS,
    *reductions.FAULTS,
    *rounding.FAULTS,
    *composites.FAULTS,
    *control.FAULTS,
    *training.FAULTS,
    *randomness.FAULTS,
    *programs.FAULTS,
    *threads.FAULTS,
    *thresholds.FAULTS,
    *compilers.FAULTS,
    *buffers.FAULTS,
    *views.FAULTS,
    *unread.FAULTS,
    *memory.FAULTS,
    *running_out.FAULTS,
    *errors.FAULTS,
    *capabilities.FAULTS,
)
