"""The executable of the strict backend: checks before, during and after a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from calor.backends.communication import Collective, Communicator, Exchange
from calor.backends.protocol import Backend, Buffer, Executable, MemoryFigures
from calor.errors import OutOfMemoryError
from calor.graph.graph import Graph
from calor.specs import Spec
from calor_conformance.strict.rules import StrictBuffer, digest, overlaps

Into = Sequence[Buffer | None] | None


class Watching(Protocol):
    """The strict backend, as its executables and communicators see it."""

    @property
    def inner(self) -> Backend:
        """The backend that is watched."""
        ...

    def require(self, holds: bool, rule: str, detail: str) -> None:
        """Raise ProtocolError naming the rule unless it holds."""
        ...

    def wrap(self, index: int, inner: Buffer, known: Spec) -> StrictBuffer:
        """Return a new inner buffer as a strict one, checked."""
        ...

    def open(self, index: int, buffer: Any, known: Spec) -> Buffer:
        """Return the inner buffer of a strict one after checking that it is what it should be."""
        ...

    def stamp(self, buffer: StrictBuffer) -> None:
        """Remember a small buffer's contents, to see that nobody changes them."""
        ...

    def memory(self, index: int) -> MemoryFigures:
        """Return the figures of a device, checked."""
        ...

    def views(self, index: int) -> bool:
        """Whether download gives views of the buffers' own memory."""
        ...

    def single_threaded(self) -> bool:
        """Whether memory figures can only have been changed by the call just made."""
        ...


class StrictExecutable:
    """Runs the inner executable between checks."""

    def __init__(self, backend: Watching, index: int, graph: Graph, inner: Executable) -> None:
        self.backend = backend
        self.index = index
        self.graph = graph
        self.inner = inner
        required = inner.required_bytes
        backend.require(
            type(required) is int and required >= 0, "required", f"required_bytes is {required!r}"
        )
        self.required_bytes = required

    def __call__(self, inputs: Sequence[Any], into: Into = None) -> list[StrictBuffer]:
        """Check the arguments, run, check the results."""
        given = self._open_inputs(inputs)
        targets = self._open_into(into)
        backend, index = self.backend, self.index
        before = backend.memory(index)
        try:
            made = self.inner(given, None if into is None else [t and t.inner for t in targets])
        except OutOfMemoryError:
            self._check_contents([*inputs, *targets], set(), "intact")
            raise
        self._check_memory(before.in_use, before.peak)
        self._check_contents(inputs, {id(t) for t in targets}, "contents")
        return self._close(inputs, targets, made)

    def _open_inputs(self, inputs: Sequence[Any]) -> list[Any]:
        graph, backend = self.graph, self.backend
        backend.require(
            len(inputs) == len(graph.inputs),
            "inputs",
            f"{len(inputs)} were given for {len(graph.inputs)}",
        )
        opened = []
        for number, given in zip(graph.inputs, inputs, strict=True):
            known = graph.specs[number]
            if number in graph.host and type(given) is not StrictBuffer:
                self._check_host(number, given, known)
                opened.append(given)
            else:
                opened.append(backend.open(self.index, given, known))
        return opened

    def _check_host(self, number: int, given: Any, known: Spec) -> None:
        numeric = isinstance(given, bool | int | float | complex | np.generic | np.ndarray)
        self.backend.require(numeric, "inputs", f"%{number} is a {type(given).__name__}")
        shape = np.shape(given)
        self.backend.require(shape == known.shape, "inputs", f"%{number} has shape {shape}")

    def _open_into(self, into: Into) -> list[StrictBuffer | None]:
        specs, backend = self.graph.output_specs, self.backend
        if into is None:
            return [None] * len(specs)
        backend.require(len(into) == len(specs), "into", f"{len(into)} for {len(specs)} outputs")
        targets: list[StrictBuffer | None] = []
        for target, known in zip(into, specs, strict=True):
            if target is None:
                targets.append(None)
                continue
            feature = backend.inner.info(self.index).feature("in_place")
            backend.require(bool(feature), "into", f"in_place is {feature}")
            backend.open(self.index, target, known)
            assert type(target) is StrictBuffer
            backend.require(not target.exported, "into", f"the buffer of {known} is exported")
            backend.require(target not in targets, "into", "one buffer is given for two outputs")
            targets.append(target)
        return targets

    def _check_memory(self, in_use: int, peak: int) -> None:
        backend = self.backend
        after = backend.memory(self.index)
        if not backend.single_threaded():
            return
        grown = after.in_use - in_use
        if after.peak > peak:
            grown = max(grown, after.peak - in_use)
        backend.require(
            grown <= self.required_bytes,
            "required",
            f"{grown} bytes were allocated, required_bytes is {self.required_bytes}",
        )

    def _check_contents(self, buffers: Sequence[Any], written: set[int], rule: str) -> None:
        for buffer in buffers:
            if (
                type(buffer) is StrictBuffer
                and buffer.digest is not None
                and not buffer.shared
                and id(buffer) not in written
            ):
                now = digest(self._array(buffer))
                self.backend.require(
                    now == buffer.digest, rule, f"a buffer of {buffer.spec} changed"
                )

    def _array(self, buffer: StrictBuffer) -> np.ndarray[Any, Any]:
        return self.backend.inner.download(self.index, buffer.inner, buffer.spec)

    def _close(
        self, inputs: Sequence[Any], targets: list[StrictBuffer | None], made: Any
    ) -> list[StrictBuffer]:
        backend, specs = self.backend, self.graph.output_specs
        backend.require(isinstance(made, list), "outputs", f"it is a {type(made).__name__}")
        backend.require(len(made) == len(specs), "outputs", f"{len(made)} for {len(specs)} outputs")
        closed: list[StrictBuffer] = []
        for inner, known, target in zip(made, specs, targets, strict=True):
            if target is None:
                closed.append(backend.wrap(self.index, inner, known))
                continue
            backend.require(inner is target.inner, "returned", f"for {known}")
            backend.stamp(target)
            closed.append(target)
        if backend.views(self.index):
            others = [b for b in inputs if type(b) is StrictBuffer and not b.shared]
            shared = overlaps([self._array(b) for b in dict.fromkeys((*closed, *others))])
            backend.require(shared is None, "fresh", f"outputs and inputs {shared} share memory")
        return closed


class StrictCommunicator(Communicator):
    """Passes inner buffers to the inner communicator, and checks its results."""

    def __init__(self, backend: Watching, indices: Sequence[int], inner: Communicator) -> None:
        self.backend = backend
        self.indices = tuple(indices)
        self.inner = inner

    def takes(self, call: Collective) -> bool:
        """Return the inner communicator's answer."""
        return self.inner.takes(call)

    def prepare(self, calls: Sequence[Collective]) -> Exchange:
        """Return the inner communicator's function with checks."""
        backend, indices = self.backend, self.indices
        inner = self.inner.prepare(calls)

        def run(inputs: Sequence[Sequence[Any]]) -> list[list[Buffer]]:
            given = [
                [backend.open(i, b, c.given) for i, b in zip(indices, row, strict=True)]
                for c, row in zip(calls, inputs, strict=True)
            ]
            made = inner(given)
            said = f"{len(made)} for {len(calls)} calls"
            backend.require(len(made) == len(calls), "outputs", said)
            return [
                [backend.wrap(i, b, c.made) for i, b in zip(indices, row, strict=True)]
                for c, row in zip(calls, made, strict=True)
            ]

        return run

    def close(self) -> None:
        """Close the inner communicator."""
        self.inner.close()
