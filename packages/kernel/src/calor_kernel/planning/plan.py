"""A plan: a graph's launches recorded once, and what a call of it does.

Requirements: a call takes the memory of its results and of its arena from the pool, runs one list
that the device has recorded, and wraps buffers: about two microseconds of Python beside the queue.
Everything is reserved before anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calor.errors import OutOfMemoryError
from calor.graph.graph import Graph
from calor_kernel.library.work import Argument, Input, Launch, Output, Scratch, Status
from calor_kernel.planning.arena import lay_out
from calor_kernel.planning.hosts import HostBlock
from calor_kernel.planning.values import Draft, Piece, Task
from calor_kernel.runtime.buffers import KernelBuffer
from calor_kernel.runtime.device import Slot, Step
from calor_kernel.runtime.pool import room_for

if TYPE_CHECKING:
    from calor_kernel.runtime.engine import Engine

Into = Sequence[Any] | None


class Plan:
    """The executable of a graph without control flow."""

    def __init__(self, engine: Engine, draft: Draft) -> None:
        self.engine = engine
        self.graph: Graph = draft.graph
        self.draft = draft
        self.pool = pool = engine.pool
        self.queue = engine.device.queue
        self.works = [task.works[0] for task in draft.tasks]
        self.layout = lay_out(draft.tasks, self.works, draft.outputs, engine.device.info.align)
        failing = [n for n, w in enumerate(self.works) if w.failures]
        align = engine.device.info.align
        self.status = {n: draft.host_bytes + i * align for i, n in enumerate(failing)}
        block_bytes = draft.host_bytes + len(failing) * align
        self.block = HostBlock(draft.hosts, block_bytes) if block_bytes else None
        self.given = [i for i in self.graph.inputs if i not in self.graph.host]
        self.fresh = [(pool.bin(room), room, p.nbytes) for p in draft.outputs
                      for room in (room_for(p.nbytes),)]  # fmt: skip
        self.required_bytes = (
            sum(p.nbytes for p in draft.outputs) + self.layout.nbytes + block_bytes
        )
        self.largest = _largest(draft.tasks)
        self.constants = self._upload(draft.constants)
        self._slots()
        self.steps = self._record_steps()
        self.recorded = self.queue.record(self.steps, self.slots)

    def _upload(self, constants: bytes) -> KernelBuffer | None:
        if not constants:
            return None
        pool = self.pool
        handle, room = pool.raw(len(constants))
        buffer = KernelBuffer(pool, handle, room, 0)
        pool.memory.copy_in(handle, 0, np.frombuffer(constants, np.uint8))
        return buffer

    def _slots(self) -> None:
        """Number the handles of a run: inputs, constants, host numbers, the arena, results."""
        count = len(self.given)
        self.input_slots = {i: n for n, i in enumerate(self.given)}
        self.fixed: list[Any] = []
        self.constant_slot = count
        if self.constants is not None:
            self.fixed.append(self.constants.handle)
            count += 1
        self.block_slot = count
        count += self.block is not None
        self.arena_slot = count
        count += self.layout.nbytes > 0
        self.output_slots = {p: count + n for n, p in enumerate(self.draft.outputs)}
        self.slots = count + len(self.draft.outputs)

    # Recording.
    def _place(self, piece: Piece) -> tuple[int, int]:
        """Return the slot and the byte at which a piece begins."""
        if piece.kind == "input":
            return self.input_slots[piece.number], 0
        if piece.kind == "constant":
            return self.constant_slot, piece.number
        if piece.kind == "host":
            return self.block_slot, piece.number
        merged = self.layout.merged
        while piece in merged:
            piece = merged[piece]
        slot = self.output_slots.get(piece)
        return (self.arena_slot, self.layout.offsets[piece]) if slot is None else (slot, 0)

    def _record_steps(self) -> list[Step]:
        tasks, layout = self.draft.tasks, self.layout
        launches: list[tuple[int, Launch]] = []
        for number, (task, work) in enumerate(zip(tasks, self.works, strict=True)):
            if not any(p.nbytes for p in task.outputs):
                continue
            in_place = layout.in_place[number]
            launches += [(number, la) for la in work.launches if la.copies not in in_place]
        functions = self.engine.kernels.load(la.build for _, la in launches)
        return [
            Step(function, la.cubes, self._arguments(number, la))
            for function, (number, la) in zip(functions, launches, strict=True)
        ]

    def _arguments(self, number: int, launch: Launch) -> tuple[Slot | int | float, ...]:
        task = self.draft.tasks[number]
        signature = launch.build.signature
        return tuple(
            a
            if isinstance(a, int | float)
            else self._slot(number, task, a, signature[i].dtype.itemsize)
            for i, a in enumerate(launch.arguments)
        )

    def _slot(self, number: int, task: Task, argument: Argument, itemsize: int) -> Slot:
        if isinstance(argument, Status):
            return Slot(self.block_slot, self.status[number])
        assert isinstance(argument, Input | Output | Scratch)
        if isinstance(argument, Input):
            piece = task.inputs[argument.number].piece
        elif isinstance(argument, Output):
            piece = task.outputs[argument.number]
        else:
            piece = self.layout.scratch[number][argument.number]
        slot, start = self._place(piece)
        return Slot(slot, start + argument.offset * itemsize)

    # Calling.
    def __call__(self, inputs: Sequence[Any], into: Into = None) -> list[Any]:
        """Run; OutOfMemoryError before anything is written, or the typed error of an op."""
        pool = self.pool
        if pool.in_use + self.required_bytes > pool.ceiling:
            pool.reserve(self.required_bytes, self.largest)
        try:
            outputs = []
            for idle, room, nbytes in self.fresh:
                try:
                    handle = idle.pop()
                except IndexError:
                    handle, room = pool.find(room)
                pool.in_use += nbytes
                outputs.append(KernelBuffer(pool, handle, room, nbytes))
            temporary = []
            handles = [inputs[i].handle for i in self.given]
            handles += self.fixed
            if self.block is not None:
                piece = pool.raw(self.block.nbytes)
                temporary.append(piece)
                handles.append(piece[0])
                self._fill(piece[0], inputs)
            if self.layout.nbytes:
                piece = pool.raw(self.layout.nbytes)
                temporary.append(piece)
                handles.append(piece[0])
            handles += [b.handle for b in outputs]
        except OutOfMemoryError as error:
            error.op = error.op or self.largest
            raise
        try:
            self.queue.run(self.recorded, handles)
            if self.status:
                self._check(temporary[0][0])
        finally:
            for handle, room in temporary:
                pool.give(handle, room, 0)
        if into is None:
            return outputs
        return self._store(outputs, into)

    def _store(self, outputs: list[Any], into: Sequence[Any]) -> list[Any]:
        made = []
        for buffer, target in zip(outputs, into, strict=True):
            if target is not None:
                self.pool.memory.copy(target.handle, 0, buffer.handle, 0, buffer.nbytes)
            made.append(buffer if target is None else target)
        return made

    def _fill(self, handle: Any, inputs: Sequence[Any]) -> None:
        assert self.block is not None
        packed, buffers = self.block.pack(inputs)
        memory = self.pool.memory
        memory.copy_in(handle, 0, packed)
        for place, buffer in buffers:
            memory.copy(handle, place, buffer.handle, 0, buffer.nbytes)

    def _check(self, handle: Any) -> None:
        """Raise the error that a kernel stored, the first in the order of the graph."""
        self.queue.synchronize()
        start = min(self.status.values())
        align = self.engine.device.info.align
        words = np.empty(len(self.status) * align // 4, np.int32)
        self.pool.memory.copy_out(handle, start, words)
        for number, place in self.status.items():
            found = int(words[(place - start) // 4])
            if found:
                kind, message = self.works[number].failures[found - 1]
                raise kind(message, op=self.draft.tasks[number].op)


def _largest(tasks: Sequence[Task]) -> str | None:
    """Return the op with the largest result, which is to blame where memory runs out."""
    sizes = [(sum(p.nbytes for p in t.outputs), -n) for n, t in enumerate(tasks)]
    return tasks[-max(sizes)[1]].op if sizes else None
