"""Faults of memory that is seen or written by somebody who should not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calor.backends.numpy_backend import Memory, NumpyBuffer, NumpyExecutable
from calor.graph.graph import Graph

from .base import Array, Broken, Call, Fault, calling


def _one_for_two(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Give two outputs of the same numbers one memory."""
    made = run(inputs, into)
    for i, buffer in enumerate(made):
        for other in made[:i]:
            same = other.array.shape == buffer.array.shape and other.array.dtype == (
                buffer.array.dtype
            )
            fresh = into is None or into[i] is None
            if fresh and same and np.array_equal(other.array, buffer.array):
                made[i] = NumpyBuffer(other.array, Memory())
    return made


def _the_input(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Give a result that equals an input its memory."""
    made = run(inputs, into)
    given = [x for x in inputs if isinstance(x, NumpyBuffer)]
    for i, buffer in enumerate(made):
        for x in given:
            fits = x.array.nbytes == buffer.array.nbytes and x.array.dtype == buffer.array.dtype
            if fits and (into is None or into[i] is None) and x.array.flags.writeable:
                view = x.array.reshape(buffer.array.shape)
                if view.tobytes() == buffer.array.tobytes():
                    made[i] = NumpyBuffer(view, Memory())
    return made


def _one_by_one(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Write each output in place before the next is computed from the inputs."""
    if into is None or not any(into):
        return run(inputs, into)
    made = run(inputs)
    for i, target in enumerate(into):
        if target is not None:
            # Computed again, from inputs of which some are written over already.
            target.array[...] = run(inputs)[i].array
            made[i] = target
        else:
            made[i] = run(inputs)[i]
    return made


class Exported(NumpyBuffer):
    """A buffer that always says that somebody outside can see it."""

    __slots__ = ()
    exported = True


class NeverInPlace(Broken):
    """Results say that somebody outside can see them, so no state is ever written in place."""

    def leave(self, index: int, value: Array, spec: Any, into: Any) -> Any:
        """Wrap results in buffers that count as exported."""
        if into is not None:
            return super().leave(index, value, spec, into)
        return Exported(value, self._memory)


def _into_once(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Write in place at the first call; later only say so."""
    executable.calls = getattr(executable, "calls", 0) + bool(into and any(into))
    if executable.calls < 2 or not into:
        return run(inputs, into)
    made = run(inputs)
    return [target or fresh for target, fresh in zip(into, made, strict=True)]


def _into_the_first(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Write to the buffers of the first call."""
    if not into or not any(into):
        return run(inputs, into)
    if not hasattr(executable, "targets"):
        executable.targets = list(into)
    made = run(inputs, executable.targets)
    return [given or fresh for given, fresh in zip(into, made, strict=True)]


def _packed(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Keep a copy of each matrix as long as its buffer is given, as packed weights are."""
    kept = executable.__dict__.setdefault("packed", {})
    given = []
    for x in inputs:
        if isinstance(x, NumpyBuffer) and x.array.ndim == 2:
            if id(x) not in kept:
                # The buffer is kept, too: nobody else gets its id.
                kept[id(x)] = x, NumpyBuffer(x.array.copy(), Memory())
            x = kept[id(x)][1]
        given.append(x)
    return run(given, into)


def _returns_fresh(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    return run(inputs)


class RecyclesEarly(Broken):
    """The memory of a buffer is used again while a view of it is alive."""

    class Calls(NumpyExecutable):
        """Writes zeros into what the last call but one made."""

        def __init__(self, backend: Any, index: int, graph: Graph) -> None:
            super().__init__(backend, index, graph)
            self.last: list[Array] = []

        def __call__(self, inputs: Sequence[Any], into: Any = None) -> Any:
            """Run in the memory of the call before."""
            made: list[Any] = super().__call__(inputs, into)
            for array in self.last:
                if array.flags.writeable:
                    array[...] = 0
            self.last = [b.array for i, b in enumerate(made) if into is None or into[i] is None]
            return made

    executable = Calls


def _scalars_kept(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Write no single number in place."""
    kept = [t.array.copy() if t is not None and not t.array.ndim else None for t in into or ()]
    made = run(inputs, into)
    for target, before in zip(into or (), kept, strict=True):
        if before is not None:
            target.array[...] = before
    return made


def _element_by_element(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Move elements in place one after another, where a result has the memory of an input."""
    graph = executable.graph
    makers = {o: n for n in graph.nodes for o in n.outputs}
    made = run(inputs, into if into is None else [None] * len(into))
    for i, target in enumerate(into or ()):
        if target is None:
            continue
        node = makers.get(graph.outputs[i])
        if node is not None and node.op.name == "permute" and target in inputs:
            flat, places = target.array.reshape(-1), np.arange(target.array.size)
            sources = places.reshape(target.array.shape).transpose(node.attributes["axes"])
            for at, source in zip(places, sources.reshape(-1), strict=True):
                flat[at] = flat[source]
        else:
            target.array[...] = made[i].array
        made[i] = target
    return made


FAULTS = [
    Fault(
        "never-in-place",
        "results count as seen from outside, so that each step moves its state to fresh memory",
        NeverInPlace,
        ("state/where-state-lives",),
    ),
    Fault(
        "outputs-share",
        "two outputs that hold the same numbers share their memory",
        calling(_one_for_two),
        ("state/outputs_have_memory_of_their_own",),
    ),
    Fault(
        "output-is-input",
        "a result that only moves an input shares its memory",
        calling(_the_input),
        ("state/outputs_have_memory_of_their_own",),
    ),
    Fault(
        "written-before-read",
        "an output is written in place while another is still to be computed from the old numbers",
        calling(_one_by_one),
        ("history/updates_read_the_old_numbers",),
    ),
    Fault(
        "in-place-once",
        "from the second call on, what should be written in place is not",
        calling(_into_once),
        ("state/state_is_never_stale",),
    ),
    Fault(
        "in-place-elsewhere",
        "results are written to the buffers of the first call",
        calling(_into_the_first),
        ("history/states_in_turns",),
    ),
    Fault(
        "in-place-ignored",
        "a fresh buffer is returned in place of the one to write",
        calling(_returns_fresh),
        ("features/in_place",),
    ),
    Fault(
        "memory-used-again",
        "a call writes to the memory of results that are still held",
        RecyclesEarly,
        ("history/results_stay", "memory/drawn-*"),
    ),
    Fault(
        "scalars-not-in-place",
        "a single number is not written in place",
        calling(_scalars_kept),
        ("history/small_states",),
    ),
    Fault(
        "moved-element-by-element",
        "a state is transposed in place, each element read after others were written",
        calling(_element_by_element),
        ("history/moves_in_place",),
    ),
    Fault(
        "packed-for-ever",
        "a matrix is packed when a program gets its buffer first, and never again",
        calling(_packed),
        ("state/drawn-shared-memory",),
    ),
]
