"""Faults of executables: what is left over from an earlier call, cached, shared, or not waited for.

A program that is right once may be wrong the second time, in another thread, or beside another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calor.backends.numpy_backend import Memory, NumpyBuffer, NumpyExecutable
from calor.graph.attributes import Scalar
from calor.graph.graph import Graph

from .base import Array, Broken, Call, Fault, calling
from .views import Unexported

# How many calls a ring of descriptors holds.
RING = 64


def _first_inputs(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Run on the memory that was given at the first call, as a recorded plan does."""
    if not hasattr(executable, "recorded"):
        executable.recorded = list(inputs)
    known = zip(executable.recorded, inputs, strict=True)
    return run([a if isinstance(a, NumpyBuffer) else b for a, b in known], into)


def _first_numbers(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    if not hasattr(executable, "recorded"):
        executable.recorded = list(inputs)
    known = zip(executable.recorded, inputs, strict=True)
    return run([b if isinstance(a, NumpyBuffer) else a for a, b in known], into)


def _wrong_later(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    executable.calls = getattr(executable, "calls", 0) + 1
    made = run(inputs, into)
    if executable.calls == 2:
        _spoil(made)
    return made


def _ring(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    executable.calls = getattr(executable, "calls", 0) + 1
    made = run(inputs, into)
    if executable.calls > RING:
        _spoil(made)
    return made


def _spoil(made: list[Any]) -> None:
    for buffer in made:
        buffer.array[...] = 0


def _once(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Take a buffer that is given twice for a new, empty one the second time."""
    seen: set[int] = set()
    given = []
    for x in inputs:
        twice = isinstance(x, NumpyBuffer) and id(x) in seen
        seen.add(id(x))
        given.append(NumpyBuffer(np.zeros_like(x.array), Memory()) if twice else x)
    return run(given, into)


def _rounds_twice(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Round a program of several outputs to fewer bits, as a fast unit does."""
    made = run(inputs, into)
    if len(made) > 1:
        for buffer in made:
            if buffer.array.dtype == np.float32:
                bits = buffer.array.view(np.uint32)
                bits[...] = (bits + 4) & np.uint32(0xFFFFFFF8)
    return made


def _draws_once(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    made = run(inputs, into)
    if any(node.op.name == "random_bits" for node in executable.graph.nodes):
        first = executable.__dict__.setdefault("first", [buffer.array.copy() for buffer in made])
        for buffer, array in zip(made, first, strict=True):
            buffer.array[...] = array
    return made


def _first_weight(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    """Keep copies of all square matrices after a few calls, and look at the first one alone."""
    executable.calls = getattr(executable, "calls", 0) + 1
    places = [i for i, x in enumerate(inputs) if _is_square(x)]
    if executable.calls < 3 or len(places) < 2:
        return run(inputs, into)
    if executable.calls == 3:
        executable.kept = {i: inputs[i].array.copy() for i in places}
    first, *others = places
    given = list(inputs)
    if np.array_equal(given[first].array, executable.kept.get(first)):
        for i in others:
            given[i] = NumpyBuffer(executable.kept.get(i, given[i].array), Memory())
    return run(given, into)


def _is_square(x: Any) -> bool:
    return isinstance(x, NumpyBuffer) and x.array.ndim == 2 and len({*x.array.shape}) == 1


class ForgetsAttributes(Broken):
    """Compiled graphs are kept by ops, shapes and dtypes, whatever the attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[Any, Any] = {}

    def _key(self, graph: Graph) -> Any:
        nodes = tuple((n.op.name, n.inputs, n.outputs) for n in graph.nodes)
        return nodes, graph.specs, graph.outputs, graph.host

    def compile(self, index: int, graph: Graph) -> Any:
        """Return what was compiled before for a graph that looks the same."""
        key = self._key(graph)
        if key not in self.kept:
            self.kept[key] = super().compile(index, graph)
        return self.kept[key]


class ForgetsSigns(ForgetsAttributes):
    """Compiled graphs are kept by attributes that are equal, as 0.0 and -0.0 are."""

    def _key(self, graph: Graph) -> Any:
        numbers = [
            (name, value.number if isinstance(value, Scalar) else value)
            for node in graph.nodes
            for name, value in sorted(node.attributes.items())
        ]
        return (*super()._key(graph), tuple(numbers))


class ForgetsTruths(ForgetsAttributes):
    """Compiled graphs are kept by attributes that are no truths, such as an order's direction."""

    def _key(self, graph: Graph) -> Any:
        return (*super()._key(graph), self._attributes(graph))

    def _attributes(self, graph: Graph) -> Any:
        told = [(k, v) for n in graph.nodes for k, v in sorted(n.attributes.items())]
        return repr([(k, v) for k, v in told if not isinstance(v, bool)])


class ForgetsAxes(ForgetsTruths):
    """Compiled graphs are kept by attributes that are no single axis."""

    def _attributes(self, graph: Graph) -> Any:
        told = [(k, v) for n in graph.nodes for k, v in sorted(n.attributes.items())]
        return repr([(k, v) for k, v in told if k != "axis"])


class ForgetsNumbers(ForgetsTruths):
    """Compiled graphs are kept whatever the constants between 1 and 10 are."""

    def _attributes(self, graph: Graph) -> Any:
        told = [(k, v) for n in graph.nodes for k, v in sorted(n.attributes.items())]
        numbers = [(k, v.number if isinstance(v, Scalar) else v) for k, v in told]
        kept = [(k, v) for k, v in numbers if not (isinstance(v, int | float) and 1 < v < 10)]
        return repr(kept)


class ForgetsLengths(ForgetsAttributes):
    """Compiled graphs are kept whatever the length of the first axis."""

    def _key(self, graph: Graph) -> Any:
        specs = tuple((s.shape[1:], len(s.shape), s.dtype) for s in graph.specs)
        nodes = tuple((n.op.name, n.inputs, n.outputs) for n in graph.nodes)
        attributes = tuple(n.attributes.get("value") for n in graph.nodes)
        return nodes, specs, graph.outputs, graph.host, attributes

    def compile(self, index: int, graph: Graph) -> Any:
        """Return what was compiled for the first length, which computes as many elements."""
        first = super().compile(index, graph)
        mine = Broken.compile(self, index, graph)
        return mine if first.graph.specs == graph.specs else _Cut(mine, first.graph)


class _Cut:
    """Computes as many elements as another graph has."""

    def __init__(self, run: NumpyExecutable, first: Graph) -> None:
        self.run, self.first, self.graph = run, first, run.graph
        self.required_bytes = run.required_bytes

    def __call__(self, inputs: Sequence[Any], into: Any = None) -> list[Any]:
        made: list[Any] = self.run(inputs, into)
        for buffer, known in zip(made, self.first.output_specs, strict=True):
            if known.shape:
                buffer.array[known.shape[0] :] = 0
        return made


class NobodyWaits(Broken):
    """A call returns before it has computed, and download does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: list[tuple[Array, Array]] = []

    def synchronize(self, index: int) -> None:
        """Let what was started end."""
        for buffer, right in self.pending:
            buffer[...] = right
        self.pending.clear()

    class Later(NumpyExecutable):
        """Gives buffers of zeros that are filled when the next call comes."""

        def __call__(self, inputs: Sequence[Any], into: Any = None) -> Any:
            """Start the work."""
            backend: Any = self.backend
            backend.synchronize(self.index)
            made: list[Any] = super().__call__(inputs, into)
            for buffer in made:
                backend.pending.append((buffer.array, buffer.array.copy()))
                buffer.array[...] = 0
            return made

    executable = Later


class HandsOutConstants(Broken):
    """A constant is an output without a copy: who writes to the output changes the constant."""

    class Constants(NumpyExecutable):
        """Keeps the first outputs that no input has a part in."""

        def __init__(self, backend: Any, index: int, graph: Graph) -> None:
            super().__init__(backend, index, graph)
            made = {v for n in graph.nodes if n.op.name in ("full", "constant") for v in n.outputs}
            self.fixed = [i for i, v in enumerate(graph.outputs) if v in made]
            self.held: dict[int, Array] = {}

        def __call__(self, inputs: Sequence[Any], into: Any = None) -> Any:
            """Return the constants themselves."""
            made: list[Any] = super().__call__(inputs, into)
            for i in self.fixed:
                if into is None or into[i] is None:
                    array = self.held.setdefault(i, made[i].array)
                    made[i] = Unexported(array, self.backend._memory)  # type: ignore[attr-defined]
            return made

    executable = Constants


FAULTS = [
    Fault(
        "plan-recorded",
        "a plan reads the buffers of its first call ever after",
        calling(_first_inputs),
        ("history/many_calls", "state/training_steps", "state/hooks-and-parametrizations"),
    ),
    Fault(
        "numbers-recorded",
        "a plan keeps the Python numbers of its first call",
        calling(_first_numbers),
        ("history/numbers",),
    ),
    Fault(
        "rounds-by-program",
        "a program of several outputs has three bits less of each",
        calling(_rounds_twice),
        ("features/mixed_rounding",),
    ),
    Fault(
        "second-call-wrong",
        "the second call of an executable gives zeros",
        calling(_wrong_later),
        ("jit/add/float32", "state/state_is_never_stale"),
        ("add",),
    ),
    Fault(
        "descriptors-run-out",
        "an executable gives zeros after its 64th call",
        calling(_ring),
        ("history/many_calls",),
    ),
    Fault(
        "weights-kept-by-the-first",
        "copies of all weights of a program are kept as long as the first one stays",
        calling(_first_weight),
        ("state/one-of-several-kept-weights",),
        ("dot_general",),
    ),
    Fault(
        "one-buffer-twice",
        "a buffer that is given twice is zeros the second time",
        calling(_once),
        ("history/one_buffer_twice",),
    ),
    Fault(
        "attributes-forgotten",
        "plans are kept by ops, shapes and dtypes, without the attributes",
        ForgetsAttributes,
        ("values/flip-both/float32", "history/drawn-calls-of-jitted-functions"),
        ("flip",),
    ),
    Fault(
        "signs-forgotten",
        "plans are kept by attributes that are equal, and 0.0 equals -0.0",
        ForgetsSigns,
        ("history/drawn-alike-numbers",),
    ),
    Fault(
        "truths-forgotten",
        "plans are kept by what is no truth among the attributes, so up and down are one order",
        ForgetsTruths,
        ("functions/one-option-apart-calor",),
        ("sort",),
    ),
    Fault(
        "axes-forgotten",
        "plans are kept without the axis, which shapes tell apart unless they are square",
        ForgetsAxes,
        ("functions/one-option-apart-calor",),
        ("sort",),
    ),
    Fault(
        "numbers-forgotten",
        "plans are kept whatever their constants between 1 and 10 are",
        ForgetsNumbers,
        ("functions/one-option-apart-calor_nn.functional",),
        ("sort",),
    ),
    Fault(
        "numbers-drawn-once",
        "a program that draws random numbers gives those of its first call ever after",
        calling(_draws_once),
        ("history/settings-between-calls",),
        ("random_bits",),
    ),
    Fault(
        "lengths-forgotten",
        "a plan computes as many elements as at its first length",
        ForgetsLengths,
        ("features/dynamic_shapes",),
    ),
    Fault(
        "nobody-waits",
        "a result can be downloaded before it is there",
        NobodyWaits,
        ("values/add/float32", "transfers/interleaved"),
        ("add",),
    ),
    Fault(
        "constants-handed-out",
        "a result that is constant is the program's own memory",
        HandsOutConstants,
        ("history/constants",),
    ),
]
