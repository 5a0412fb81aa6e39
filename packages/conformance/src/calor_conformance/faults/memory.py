"""Faults of memory: leaks, wrong figures, limits, and what running out does to others."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calor.backends.numpy_backend import NumpyBuffer, NumpyExecutable
from calor.backends.protocol import MemoryFigures
from calor.errors import ElementIndexError, OutOfMemoryError
from calor.graph.graph import Graph

from .base import Array, Broken, Call, Fault, calling


class Lasting(NumpyBuffer):
    """A buffer whose end nobody counts."""

    __slots__ = ()

    def __del__(self) -> None:
        """Leave the count as it is."""


def _leaks(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    Lasting(np.zeros(16), executable.backend._memory)
    return run(inputs, into)


def _leaks_when_an_index_fails(
    executable: Any, run: Call, inputs: Sequence[Any], into: Any
) -> list[Any]:
    try:
        return run(inputs, into)
    except ElementIndexError:
        Lasting(np.zeros(16), executable.backend._memory)
        raise


class KeepsPlans(Broken):
    """Each executable is kept for good, by what it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[Any, Any] = {}

    def compile(self, index: int, graph: Graph) -> NumpyExecutable:
        """Compile each graph once."""
        if graph.key not in self.kept:
            self.kept[graph.key] = super().compile(index, graph)
        return self.kept[graph.key]  # type: ignore[no-any-return]


class KeepsShapes(Broken):
    """The shapes of all inputs are kept, as by a table of strides."""

    def __init__(self) -> None:
        super().__init__()
        self.known: list[set[Any]] = [set()]

    def compile(self, index: int, graph: Graph) -> NumpyExecutable:
        """Note the shapes."""
        self.known[0].update(graph.specs[n].shape for n in graph.inputs)
        return super().compile(index, graph)


class KeepsWholes(Broken):
    """A part of a result is a view, which keeps the whole memory and counts as its own bytes."""

    def own(self, index: int, values: Sequence[Any], inputs: Sequence[Any]) -> list[Array]:
        """Copy what is not dense, and what is of an input."""
        given = [array if array.base is None else array.base for array in inputs]
        right = super().own(index, values, inputs)
        made = [np.asarray(value) for value in values]
        views = [m.flags.carray and all(m.base is not g for g in given) for m in made]
        return [m if view else r for m, r, view in zip(made, right, views, strict=True)]


class LeaksThreads(Broken):
    """Each thread leaves its workspace behind."""

    def __init__(self) -> None:
        super().__init__()
        self.local = threading.local()

    def upload(self, index: int, array: Array) -> Any:
        """Make a workspace for a new thread."""
        if not hasattr(self.local, "known"):
            self.local.known = True
            Lasting(np.zeros(16), self._memory)
        return super().upload(index, array)


def _leaks_when_it_fails(executable: Any, run: Call, inputs: Sequence[Any], into: Any) -> list[Any]:
    try:
        return run(inputs, into)
    except OutOfMemoryError:
        Lasting(np.zeros(16), executable.backend._memory)
        raise


class LeaksUploads(Broken):
    """Each upload leaves its staging buffer behind."""

    def upload(self, index: int, array: Array) -> Any:
        """Upload and leave 64 bytes behind."""
        Lasting(np.zeros(8), self._memory)
        return super().upload(index, array)


class LeaksCompiles(Broken):
    """Each compiled graph leaves its workspace behind, when it is freed too."""

    def compile(self, index: int, graph: Graph) -> Any:
        """Compile and leave 64 bytes behind."""
        Lasting(np.zeros(8), self._memory)
        return super().compile(index, graph)


def _reading(change: Any) -> type[Broken]:
    class Reads(Broken):
        def memory(self, index: int) -> MemoryFigures:
            return replace(super().memory(index), **change(super().memory(index)))

    return Reads


class NeverFalls(Broken):
    """Freed memory still counts as in use."""

    def memory(self, index: int) -> MemoryFigures:
        """Return the peak as what is in use."""
        figures = super().memory(index)
        return replace(figures, in_use=figures.peak)


class NoLimit(Broken):
    """The limit can be set and is not kept."""

    def reserve(self, index: int, nbytes: int) -> None:
        """Count, and refuse nothing."""
        self._memory.peak = max(self._memory.peak, self._memory.in_use + nbytes)


class NoLimitForUploads(Broken):
    """Uploads pass the limit."""

    def upload(self, index: int, array: Array) -> Any:
        """Upload without asking."""
        made = NumpyBuffer(np.array(array, order="C"), self._memory)
        self._memory.peak = max(self._memory.peak, self._memory.in_use)
        return made


class CountsRefusedUploads(Broken):
    """An upload that is refused counts as in use."""

    def upload(self, index: int, array: Array) -> Any:
        """Count first."""
        try:
            return super().upload(index, array)
        except OutOfMemoryError:
            self._memory.in_use += array.nbytes
            raise


class KeepsTheLimit(Broken):
    """A limit that was set cannot be taken away."""

    def set_memory_limit(self, index: int, limit: int | None) -> None:
        """Ignore None."""
        if limit is not None:
            super().set_memory_limit(index, limit)


class Understates(Broken):
    """The bytes that a call needs are told without its temporaries and half its outputs."""

    class Calls(NumpyExecutable):
        """Takes twice what it announces."""

        def __init__(self, backend: Any, index: int, graph: Graph) -> None:
            super().__init__(backend, index, graph)
            self.taken, self.required_bytes = self.required_bytes, self.required_bytes // 2

        def __call__(self, inputs: Sequence[Any], into: Any = None) -> Any:
            """Reserve what is needed."""
            self.backend.reserve(self.index, self.taken)
            return super().__call__(inputs, into)

    executable = Calls


class LargeWorkspace(Broken):
    """Every call asks for a workspace of a megabyte."""

    def reserve(self, index: int, nbytes: int) -> None:
        """Ask for more."""
        super().reserve(index, nbytes + (1 << 20))


def _lower(figures: MemoryFigures) -> dict[str, int]:
    return {"in_use": figures.in_use // 2}


FAULTS = [
    Fault(
        "leak",
        "each call leaves a small buffer behind",
        calling(_leaks),
        ("memory/no_leak_of_ops", "memory/no_leak_of_jit", "memory/no_leak_of_gradients"),
    ),
    Fault(
        "leak-on-failure",
        "each call that runs out of memory leaves a small buffer behind",
        calling(_leaks_when_it_fails),
        ("memory/no_leak_of_failures",),
    ),
    Fault(
        "leak-of-uploads",
        "each upload leaves its staging buffer behind",
        LeaksUploads,
        ("memory/no_leak_of_transfers", "memory/drawn-*"),
    ),
    Fault(
        "plans-without-limit",
        "every executable is kept by what it computes, and none is dropped",
        KeepsPlans,
        ("memory/tables_have_limits",),
    ),
    Fault(
        "shapes-without-limit",
        "a table has an entry of each shape that an input had",
        KeepsShapes,
        ("memory/tables_have_limits",),
    ),
    Fault(
        "leak-of-compiles",
        "each compiled graph leaves its workspace behind",
        LeaksCompiles,
        ("memory/no_leak_of_graphs",),
    ),
    Fault(
        "in-use-halved",
        "the memory in use is told as half",
        _reading(_lower),
        ("memory/figures", "memory/drawn-*"),
    ),
    Fault(
        "in-use-never-falls",
        "freed memory counts as in use",
        NeverFalls,
        ("memory/figures",),
    ),
    Fault(
        "peak-falls",
        "the peak is what is in use now",
        _reading(lambda figures: {"peak": figures.in_use}),
        ("memory/figures",),
    ),
    Fault(
        "limit-ignored",
        "the limit can be set and is not kept",
        NoLimit,
        ("memory/running_out", "memory/uploads_beyond_the_limit"),
    ),
    Fault(
        "limit-ignored-by-uploads",
        "uploads pass the limit",
        NoLimitForUploads,
        ("memory/uploads_beyond_the_limit", "memory/drawn-*"),
    ),
    Fault(
        "limit-stays",
        "a limit cannot be taken away again",
        KeepsTheLimit,
        ("features/memory_limit",),
    ),
    Fault(
        "refused-uploads-count",
        "an upload that is refused counts as in use",
        CountsRefusedUploads,
        ("memory/uploads_beyond_the_limit", "memory/drawn-*"),
    ),
    Fault(
        "required-bytes-understated",
        "an executable announces half of what it allocates",
        Understates,
        ("memory/required_bytes",),
    ),
    Fault(
        "workspace-too-large",
        "every call asks for a megabyte more than it needs",
        LargeWorkspace,
        ("memory/running_out",),
    ),
    Fault(
        "leak-on-a-wrong-index",
        "each call that an index out of range ends leaves a small buffer behind",
        calling(_leaks_when_an_index_fails),
        ("memory/no_leak_of_errors",),
    ),
    Fault(
        "part-keeps-the-whole",
        "a small part of a large intermediate result is a view of it, which keeps all of it",
        KeepsWholes,
        ("memory/held-by-small-results",),
    ),
    Fault(
        "leak-of-threads",
        "each thread leaves its workspace behind",
        LeaksThreads,
        ("threads/figures_of_threads",),
    ),
]
