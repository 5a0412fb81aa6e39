"""One run of a cut: its steps in their order, and results in memory of their own.

Requirements: state is written when all parts have succeeded, and each result takes the place of
what it replaces; a run that lacks memory on a member says on which one, and has written nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from calor.backends.device import Device
from calor.errors import OutOfMemoryError
from calor.specs import Spec
from calor.units import bytes_text
from calor_router.buffer import RoutedBuffer
from calor_router.cutting import Cut
from calor_router.rooms import Rooms
from calor_router.steps import Fetch, Forget, Into, Leave, Stage


class OutOfRoom(Exception):
    """A run lacked memory on a member; its cause is the member's error, if that raised one.

    Parameters
    ----------
    member : int
        The member.
    error : OutOfMemoryError
        What the member says.
    """

    def __init__(self, member: int, error: OutOfMemoryError) -> None:
        super().__init__(str(error))
        self.member = member
        # Without the frames, which hold what the run had made so far.
        self.error = error.with_traceback(None)


class Router(Protocol):
    """The backend of a router, as its executables see it."""

    name: str
    members: tuple[Device, ...]
    kind: type[RoutedBuffer]
    rooms: Rooms
    copied: Any

    @property
    def device(self) -> Device:
        """The router as core sees it."""
        ...

    def on(self, buffer: RoutedBuffer, number: int, spec: Spec, ahead: bool = False) -> Any:
        """Return the buffer of a value on a member."""
        ...

    def upload(self, index: int, array: Any) -> RoutedBuffer:
        """Copy a host array to a member."""
        ...

    def copy(self, index: int, buffer: Any, spec: Spec, target: int) -> RoutedBuffer:
        """Copy the value where it is."""
        ...

    def drop_copies(self) -> bool:
        """Forget all copies, and tell whether there were any."""
        ...


class Run:
    """What runs a cut.

    Parameters
    ----------
    backend : Router
        The router.
    cut : Cut
        The parts and steps.
    """

    def __init__(self, backend: Router, cut: Cut) -> None:
        self.backend, self.cut, self.graph = backend, cut, cut.graph
        graph, outputs = cut.graph, cut.graph.outputs
        self.fallbacks = sum(1 for member in cut.chosen if member)
        self._inputs = {v for v in graph.inputs if v not in graph.host}
        self._passed = tuple(dict.fromkeys(v for v in outputs if v < len(graph.inputs)))
        self._plain = not self._passed and len(set(outputs)) == len(outputs)
        moved = sum(graph.specs[v].nbytes for s in cut.stages for v in s.segment.inputs)
        made = sum(graph.specs[v].nbytes for s in cut.stages for v in s.segment.outputs)
        own = sum(known.nbytes for known in graph.output_specs)
        parts = sum(stage.executable.required_bytes for stage in cut.stages)
        self.required_bytes = moved + made + own + parts

    def __call__(self, inputs: Sequence[Any], into: Into) -> list[Any]:
        """Run the steps; OutOfRoom where a member lacks memory."""
        held: dict[int, Any] = dict(enumerate(inputs))
        # Copied first: the memory of an input may be written in place.
        passed = {v: self._own(v, held[v]) for v in self._passed}
        direct = self._direct(into)
        if self.cut.streamed is not None:
            self._clear(held)
        try:
            self._steps(held, direct)
        finally:
            if self.cut.streamed is not None:
                # A run that failed leaves loads behind that no part waits for. What is copied to
                # the host is there at the end: its memory is no more than one run's.
                for member in self.cut.streamed.peaks:
                    place = self.backend.members[member]
                    place.backend.loaded(place.index)
                    place.backend.unloaded(place.index)
        held.update(passed)
        self.backend.device.fallbacks += self.fallbacks
        if self._plain and into is None:
            return [held[v] for v in self.graph.outputs]
        return self._results(held, into)

    def _steps(self, held: dict[int, Any], direct: Mapping[int, Any]) -> None:
        for step in self.cut.steps:
            if isinstance(step, Stage):
                self._stage(step, held, direct)
            elif isinstance(step, Fetch):
                self._fetch(step.value, step.member, held)
            elif isinstance(step, Leave):
                value = held[step.value]
                known = self.graph.specs[step.value]
                self.backend.rooms.leave(value, step.member, known, late=True)
            else:
                self._forget(step, held)

    def _stage(self, stage: Stage, held: dict[int, Any], direct: Mapping[int, Any]) -> None:
        """Run a part."""
        backend, member, segment = self.backend, stage.member, stage.segment
        if member == len(backend.members):
            made = stage.executable([held[v] for v in segment.inputs])
            held.update(zip(segment.outputs, made, strict=True))
            return
        self._room(stage, held)
        try:
            given = [self._given(v, member, held) for v in segment.inputs]
            if self.cut.streamed is not None:
                read = [b for v, b in zip(segment.inputs, given, strict=True)
                        if v not in self.graph.host]  # fmt: skip
                place = backend.members[member]
                place.backend.loaded(place.index, read)
            if direct and stage is self.cut.stages[-1]:
                self._verify(held)
                made = stage.executable(given, [direct.get(v) for v in segment.outputs])
            else:
                made = stage.executable(given)
        except OutOfMemoryError as error:
            raise OutOfRoom(member, error) from None
        limited = backend.rooms.limits[member] is not None
        for v, inner in zip(segment.outputs, made, strict=True):
            held[v] = buffer = backend.kind(member, inner)
            if limited:
                backend.rooms.note(buffer, member, self.graph.specs[v])

    def _given(self, value: int, member: int, held: Mapping[int, Any]) -> Any:
        given = held[value]
        if value in self.graph.host or not isinstance(given, RoutedBuffer):
            return given
        return self.backend.on(given, member, self.graph.specs[value])

    def _fetch(self, value: int, member: int, held: Mapping[int, Any]) -> None:
        """Bring a value to a member ahead of its use."""
        given = held[value]
        if not isinstance(given, RoutedBuffer) or given.on(member) is not None:
            return
        spec = self.graph.specs[value]
        self._make(member, spec.nbytes, lambda: self._ids(held))
        try:
            self.backend.on(given, member, spec, ahead=self.cut.streamed is not None)
        except OutOfMemoryError as error:
            raise OutOfRoom(member, error) from None

    def _forget(self, step: Forget, held: dict[int, Any]) -> None:
        for v in step.values:
            held.pop(v, None)

    # Members with a limit.
    def _clear(self, held: Mapping[int, Any]) -> None:
        """Take the inputs off members with a limit, and make room there for the whole run."""
        assert self.cut.streamed is not None
        rooms = self.backend.rooms
        for member, peak in self.cut.streamed.peaks.items():
            for v in self._inputs:
                if isinstance(held[v], RoutedBuffer):
                    self._off(held[v], member, self.graph.specs[v])
            if rooms.limits[member] is not None:
                self._make(member, peak, tuple)

    def _off(self, buffer: RoutedBuffer, member: int, spec: Spec) -> None:
        if buffer.on(member) is not None and not buffer.inner.exported:
            self.backend.rooms.leave(buffer, member, spec)

    def _room(self, stage: Stage, held: Mapping[int, Any]) -> None:
        """Make room on a member with a limit for what a part reads and makes."""
        rooms, member = self.backend.rooms, stage.member
        if rooms.limits[member] is None:
            return
        specs = self.graph.specs
        read = [v for v in stage.segment.inputs if isinstance(held[v], RoutedBuffer)]
        missing = sum(specs[v].nbytes for v in read if held[v].on(member) is None)
        needed = missing + stage.executable.required_bytes
        streamed = self.cut.streamed is not None
        self._make(
            member, needed, lambda: self._ids(held) if streamed else {id(held[v]) for v in read}
        )

    def _make(self, member: int, nbytes: int, keep: Callable[[], Collection[int]]) -> None:
        """Make room; the values that have to stay are asked for where there is none yet."""
        rooms = self.backend.rooms
        free = rooms.free(member)
        if free is not None and free < nbytes and not rooms.make(member, nbytes, keep()):
            name, limit = self.backend.members[member].name, rooms.limits[member] or 0
            raise OutOfRoom(
                member,
                OutOfMemoryError(
                    f"{self.backend.name}: a call needs {bytes_text(nbytes)} more on {name}, whose "
                    f"limit of {bytes_text(limit)} is taken by what has to stay there"
                ),
            )

    def _ids(self, held: Mapping[int, Any]) -> set[int]:
        return {id(value) for value in held.values()}

    # Results.
    def _direct(self, into: Into) -> dict[int, Any]:
        """Return the members' buffers that the last part writes itself, by value."""
        if into is None or not self.cut.stages or self.cut.streamed is not None:
            return {}
        last = self.cut.stages[-1]
        member = last.member
        if member == len(self.backend.members):
            return {}
        place = self.backend.members[member]
        if not place.info.feature("in_place"):
            return {}
        made, outputs = set(last.segment.outputs), self.graph.outputs
        return {
            v: target.on(member)
            for v, target in zip(outputs, into, strict=True)
            if isinstance(target, RoutedBuffer)
            and v in made
            and target.home == member
            and outputs.count(v) == 1
        }

    def _verify(self, held: Mapping[int, Any]) -> None:
        """Raise the error of an earlier part, before state is written."""
        if len(self.cut.stages) < 2:
            return
        for number, member in enumerate(self.backend.members):
            found = [b.on(number) for b in held.values() if isinstance(b, RoutedBuffer)]
            inner = [buffer for buffer in found if buffer is not None]
            if inner:
                member.backend.verify(member.index, inner)

    def _results(self, held: dict[int, Any], into: Into) -> list[Any]:
        """Return the results in memory of their own; a buffer given for one takes it over."""
        taken: set[int] = set()
        results: list[Any] = []
        for v in self.graph.outputs:
            made = held[v]
            if id(made) in taken:
                made = self._own(v, made)
            taken.add(id(made))
            results.append(made)
        if into is None:
            return results
        for place, target in enumerate(into):
            if isinstance(target, RoutedBuffer):
                # A value that changes place brings its memory along.
                made = results[place]
                target.settle(made.home, made.inner)
                self.backend.copied.discard(target)
                known = self.graph.specs[self.graph.outputs[place]]
                self.backend.rooms.note(target, made.home, known)
                results[place] = target
        return results

    def _own(self, value: int, given: Any) -> RoutedBuffer:
        """Return a copy of a value, or a host number as one."""
        known = self.graph.specs[value]
        if isinstance(given, RoutedBuffer):
            return self.backend.copy(0, given, known, 0)
        return self.backend.upload(0, np.asarray(given, known.dtype.numpy))
