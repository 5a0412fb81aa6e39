"""Faults of capabilities: claimed and not held, held back, or told differently each time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from calor.backends.numpy_backend import NumpyExecutable
from calor.backends.protocol import FULL, NOT_YET, Claim, Info, impossible, partial
from calor.dtypes import float16
from calor.errors import DeviceError, UnsupportedError
from calor.graph.file import load, save
from calor.graph.graph import Graph

from .base import Broken, Fault, describing


def _without(feature: str) -> type[Broken]:
    """Return a backend that has a feature and does not say so."""
    return describing(lambda info: {"features": {**info.features, feature: NOT_YET}})


class RefusesDlpack(Broken):
    """DLPack is declared and refused."""

    def dlpack(self, index: int, buffer: Any, spec: Any, **options: Any) -> Any:
        """Refuse."""
        raise UnsupportedError("broken has no DLPack")


class RefusesSerialize(Broken):
    """Storing executables is declared and refused."""

    def serialize(self, index: int, executable: Any) -> bytes:
        """Refuse."""
        raise UnsupportedError("broken cannot store executables")


class RefusesInPlace(Broken):
    """Writing in place is declared and refused."""

    class Calls(NumpyExecutable):
        """Takes no targets."""

        def __call__(self, inputs: Any, into: Any = None) -> Any:
            """Refuse to write in place."""
            if into is not None and any(into):
                raise UnsupportedError("broken cannot write in place")
            return super().__call__(inputs, into)

    executable = Calls


class RefusesWhatIsFull(describing(lambda info: {"ops": {"exp": FULL}})):  # type: ignore[misc]
    """An op is declared full, and claim refuses it."""

    def claim(self, index: int, graph: Graph) -> Claim:
        """Refuse exponentials."""
        reasons = {i: "not today" for i, n in enumerate(graph.nodes) if n.op.name == "exp"}
        taken = tuple(i for i in range(len(graph.nodes)) if i not in reasons)
        return Claim((taken,) if taken else (), reasons)


class TakesEverything(Broken):
    """Claim takes every node, whatever info says."""

    def claim(self, index: int, graph: Graph) -> Claim:
        """Take all."""
        return Claim((tuple(range(len(graph.nodes))),) if graph.nodes else ())


def _taking_everything(change: Any) -> type[Broken]:
    class Takes(describing(change), TakesEverything):  # type: ignore[misc]
        pass

    return Takes


class RefusesInSilence(Broken):
    """Claim leaves nodes out and gives no reason."""

    def claim(self, index: int, graph: Graph) -> Claim:
        """Leave out cosines."""
        taken = tuple(i for i, n in enumerate(graph.nodes) if n.op.name != "cos")
        return Claim((taken,) if taken else ())


class ClaimsTwice(Broken):
    """Claim names a node in two parts."""

    def claim(self, index: int, graph: Graph) -> Claim:
        """Take the last node twice."""
        made = super().claim(index, graph)
        return Claim((*made.parts, made.parts[0][-1:]), made.reasons) if made.parts else made


class Changes(Broken):
    """What info says changes from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def info(self, index: int) -> Info:
        """Count the calls."""
        self.asked += 1
        return replace(self._info, limits={"max_buffer_bytes": 1 << (20 + self.asked % 2)})


class Counts(Broken):
    """There is one device at first, and none later."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def enumerate(self) -> int:
        """Return 1, then 0."""
        self.asked += 1
        return int(self.asked < 2)


class NoFork(Broken):
    """The device does not work in a forked child and says that it does."""

    def __init__(self) -> None:
        super().__init__()
        self.process = os.getpid()

    def upload(self, index: int, array: Any) -> Any:
        """Upload in the process that opened the device."""
        if os.getpid() != self.process:
            raise DeviceError("broken: initialization error")
        return super().upload(index, array)


def _storing(change: Any) -> type[Broken]:
    """Return a backend that changes a graph while it stores it."""

    class Stores(Broken):
        def serialize(self, index: int, executable: Any) -> bytes:
            return save(change(executable.graph))

    return Stores


def _without_numbers(graph: Graph) -> Graph:
    """Store every constant as the first."""
    values = [n.attributes["value"] for n in graph.nodes if n.op.name == "full"]
    nodes = []
    for n in graph.nodes:
        first = n.op.name == "full" and values[0].dtype is n.attributes["value"].dtype
        kept: Mapping[str, Any] = {**n.attributes, "value": values[0]} if first else n.attributes
        nodes.append(type(n)(n.op, n.inputs, kept, n.outputs))
    return Graph(graph.specs, graph.host, tuple(nodes), graph.outputs, len(graph.inputs))


def _axis_forgotten(graph: Graph) -> Graph:
    """Store every scan as one along the first axis."""
    nodes = []
    for n in graph.nodes:
        first: Mapping[str, Any] = {**n.attributes, "axis": 0}
        kept = first if n.op.name == "cumsum" else n.attributes
        nodes.append(type(n)(n.op, n.inputs, kept, n.outputs))
    return Graph(graph.specs, graph.host, tuple(nodes), graph.outputs, len(graph.inputs))


def _outputs_turned(graph: Graph) -> Graph:
    outputs = tuple(reversed(graph.outputs))
    return Graph(graph.specs, graph.host, graph.nodes, outputs, len(graph.inputs))


class ForgetsBytes(Broken):
    """A loaded executable says that it needs no memory."""

    def deserialize(self, index: int, data: bytes) -> Any:
        """Load, and forget what it needs."""
        made = self.compile(index, load(data))
        made.required_bytes = 0
        return made


class WrongCapsule(Broken):
    """A DLPack capsule has its elements in the wrong order."""

    def dlpack(self, index: int, buffer: Any, spec: Any, **options: Any) -> Any:
        """Export the elements backwards."""
        return np.ascontiguousarray(np.flip(buffer.array)).__dlpack__()


class HalfRanks(describing(lambda info: {"limits": {"max_rank": 8}})):  # type: ignore[misc]
    """Eight axes are declared, and sums take five."""

    def claim(self, index: int, graph: Graph) -> Claim:
        """Refuse more than five axes."""
        reasons = {
            i: "too many axes"
            for i, n in enumerate(graph.nodes)
            if any(graph.specs[v].ndim > 5 for v in n.inputs)
        }
        taken = tuple(i for i in range(len(graph.nodes)) if i not in reasons)
        return Claim((taken,) if taken else (), reasons)


FAULTS = [
    Fault("dlpack-not-held", "DLPack is declared and refused", RefusesDlpack,
          ("features/dlpack",)),
    Fault("dlpack-wrong", "a DLPack capsule has its elements in another order", WrongCapsule,
          ("transfers/dlpack",)),
    Fault("serialize-not-held", "storing executables is declared and refused", RefusesSerialize,
          ("features/serialize",)),
    Fault("in-place-not-held", "writing in place is declared and refused", RefusesInPlace,
          ("features/in_place",)),
    Fault("op-not-held", "an op is declared full, and claim refuses it", RefusesWhatIsFull,
          ("features/claims", "values/exp/float32"), ("exp",)),
    Fault("ranks-not-held", "eight axes are declared, and five are taken", HalfRanks,
          ("features/max_rank",)),
    Fault("fork-not-held", "a forked child is promised and fails", NoFork, ("features/fork",)),
    Fault("serialize-held-back", "executables can be stored, and info does not say so",
          _without("serialize"), ("features/serialize",)),
    Fault("limit-held-back", "a memory limit can be set, and info does not say so",
          _without("memory_limit"), ("features/memory_limit",)),
    Fault("dlpack-held-back", "DLPack works, and info does not say so", _without("dlpack"),
          ("features/dlpack",)),
    Fault("views-held-back", "host memory can be shared, and info does not say so",
          _without("host_views"), ("features/host_views",)),
    Fault("in-place-held-back", "buffers are written in place, and info does not say so",
          _without("in_place"), ("features/in_place",)),
    Fault("rank-held-back", "four axes are the most, and five work",
          describing(lambda info: {"limits": {"max_rank": 4}}), ("features/max_rank",)),
    Fault("op-held-back", "claim takes an op that info rules out",
          _taking_everything(lambda info: {"ops": {"exp": impossible("no unit for it")}}),
          ("features/claims",)),
    Fault("dtype-held-back", "claim takes a dtype that info rules out",
          _taking_everything(lambda info: {"dtypes": {
              d: state for d, state in info.dtypes.items() if d is not float16}}),
          ("features/claims",)),
    Fault("refused-in-silence", "claim leaves a node out without a reason", RefusesInSilence,
          ("features/claims",)),
    Fault("claimed-twice", "claim names a node in two parts", ClaimsTwice, ("features/claims",)),
    Fault("partial-unexplained", "an op is partial without a reason",
          describing(lambda info: {"ops": {"exp": partial("")}}), ("features/description",)),
    Fault("description-changes", "what info says changes from call to call", Changes,
          ("features/description",)),
    Fault("device-count-changes", "the device is counted once and not again", Counts,
          ("features/description",)),
    Fault("stored-numbers-lost", "a stored executable has one constant for all",
          _storing(_without_numbers), ("features/serialize",)),
    Fault("stored-axis-forgotten", "a stored executable scans along the first axis",
          _storing(_axis_forgotten), ("stored/cumsum/float32",), ("cumsum",)),
    Fault("stored-outputs-turned", "a stored executable gives its outputs in another order",
          _storing(_outputs_turned), ("features/serialize",)),
    Fault("stored-bytes-forgotten", "a loaded executable announces that it needs no memory",
          ForgetsBytes, ("features/serialize",)),
]  # fmt: skip
