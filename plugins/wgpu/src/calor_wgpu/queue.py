"""Launches on a device of wgpu, in order.

Requirements: numbers are written to memory once, when launches are recorded, so a run only binds
buffers; immediates would take an H200 0.3 µs more for each dispatch. Bind groups are cached by
handles. Within a pass, wgpu orders dispatches by the buffers that they use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from calor_kernel.device.launch_cache import Kept
from calor_kernel.device.protocol import Queue, Step
from calor_kernel.device.words import Piece
from calor_kernel.ir.nodes import Kernel
from calor_wgpu.structs import Window, folded, pack, struct_of, windows

from ._bindings import (
    ALIGN,
    Commands,
    Dispatch,
    Part,
    Pipelines,
    Stream,
    add_pipelines,
    bind,
    most_seen,
    timed,
    typed,
    uniform,
)
from .toolchain import WgpuToolchain
from .wgsl import MOST_CUBES

# Limit of cached bind groups of a recorded list, and the minimum of cached sets of handles.
_GROUPS, _SETS = 1024, 32


@dataclass(frozen=True, slots=True)
class Function:
    """A loaded kernel: its pipelines, and its arguments as a struct."""

    pipelines: Pipelines
    fields: np.dtype[Any]
    kernel: Kernel

    def packed(self, step: Step, begins: Sequence[int] = ()) -> bytes:
        """Return the arguments of a launch as bytes."""
        return pack(self.fields, self.kernel.parameters, step, begins)


class Recorded:
    """Launches with their numbers in a buffer; bind groups are cached by handles."""

    def __init__(self, queue: WgpuQueue, steps: Sequence[Step]) -> None:
        self.queue = queue
        self.all = steps
        self.steps = [s for s in steps if 0 not in s.cubes]
        self.grids = [folded(s.cubes, MOST_CUBES) for s in self.steps]
        packed = [s.function.packed(s) for s in self.steps]
        data = [p.ljust(-(-len(p) // ALIGN) * ALIGN, b"\0") for p in packed]
        self.places = list(accumulate(map(len, data), initial=0))
        self.buffer = uniform(queue.stream.device, b"".join(data)) if data else None
        self.work = sum(s.work for s in self.steps)
        # Dispatches by their handles, and the last ones by identity.
        self.known: dict[tuple[Piece, ...], list[Dispatch]] = {}
        self.on = Kept(self._dispatches, _SETS)

    def encode(self, commands: Commands, handles: Sequence[Piece]) -> None:
        """Add all launches to a pass."""
        commands.dispatch(self.on(handles))

    def _dispatches(self, given: Sequence[Piece], oldest: object) -> list[Dispatch]:
        known, handles = self.known, tuple(given)
        found = known.get(handles)
        if found is None:
            if len(known) >= max(_SETS, _GROUPS // (len(self.steps) or 1)):
                known.clear()
            shown = [windows(step, handles, self.queue.most, ALIGN) for step in self.steps]
            self._compile(shown)
            found = known[handles] = [
                Dispatch.of(*self._group(step, place, parts), grid)
                for step, place, parts, grid in zip(
                    self.steps, self.places, shown, self.grids, strict=False
                )
            ]
        return found

    @typed("binding buffers")
    def _compile(self, shown: Sequence[Sequence[Window]]) -> None:
        """Make the pipelines that the launches lack for these parts of buffers."""
        made = (step.function.pipelines for step in self.steps)
        add_pipelines(
            (one, [_part(w) for w in parts]) for one, parts in zip(made, shown, strict=True)
        )

    def _group(self, step: Step, place: int, shown: Sequence[Window]) -> tuple[Any, Any]:
        function, stream, buffer = step.function, self.queue.stream, self.buffer
        begins = [begin for _, begin, _ in shown]
        with typed(f"binding buffers of kernel {function.kernel.name}"):
            if any(begins):
                # Bindings of these handles begin elsewhere, so offsets differ.
                buffer, place = uniform(stream.device, function.packed(step, begins)), 0
            parts = [_part(window) for window in shown]
            to = function.pipelines.of(parts)
            return to, bind(stream, to, (buffer, place, function.fields.itemsize), parts)


def _part(window: Window) -> Part:
    """Return the bound part of a buffer: the buffer, an offset and a size."""
    piece, begin, nbytes = window
    return piece.buffer, piece.start + begin, nbytes


class WgpuQueue(Queue):
    """The device's queue, in order."""

    def __init__(self, stream: Stream, toolchain: WgpuToolchain) -> None:
        self.stream = stream
        self.toolchain = toolchain
        self.most = most_seen(stream.device)

    def load(self, image: bytes, kernel: Kernel | Any) -> Function:
        """Return an image whose pipelines are made when launches bind buffers."""
        made = Pipelines(self.stream, self.toolchain.place(), image.decode(), kernel)
        fields = struct_of(kernel.parameters, self.toolchain.dialect.host)
        return Function(made, fields, kernel)

    def record(self, steps: Sequence[Step], slots: int) -> Recorded:
        """Return the launches with their numbers written to a buffer."""
        with typed("recording launches"):
            return Recorded(self, steps)

    def run(self, recorded: Recorded, handles: Sequence[Piece]) -> None:
        """Queue all launches and return."""
        with self.stream.lock:
            recorded.encode(self.stream.commands(), handles)
            self.stream.waiting.add(len(recorded.steps), recorded.work)

    def synchronize(self) -> None:
        """Wait for the queue."""
        with self.stream.lock, typed("waiting for kernels"):
            self.stream.wait()

    def seconds(self, recorded: Recorded, handles: Sequence[Piece]) -> list[float]:
        """Run each launch once in a timed pass, and return the times in seconds."""
        found: list[float] = []
        for step in recorded.all:
            one = Recorded(self, [step])
            with self.stream.lock, typed("timing kernels"):
                found.append(timed(self.stream, partial(one.encode, handles=handles)))
        return found
