"""NCCL without GPUs: collectives on the memory of the imitated driver.

Requirements: it takes the calls that calor-cuda makes of CuPy, with their argument types; calls
of a group run when it ends, and only if every member made the same; ``fails`` is the code with
which the next call fails.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from imitated_cuda import Fake

TYPES = {
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT32": np.int32,
    "UINT32": np.uint32,
    "INT64": np.int64,
    "UINT64": np.uint64,
    "FLOAT16": np.float16,
    "BFLOAT16": ml_dtypes.bfloat16,
    "FLOAT32": np.float32,
    "FLOAT64": np.float64,
}
OPS = {"SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum}


class NcclError(RuntimeError):
    """An error as CuPy raises it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"NCCL_ERROR_{status}")
        self.status = status


class Nccl:
    """The state of the imitated library, and CuPy's module of it."""

    def __init__(self, cuda: Fake) -> None:
        self.cuda = cuda
        self.fails = 0
        self.groups: list[int] = []
        self.waiting: list[tuple[int, tuple[Any, ...]]] = []
        self.within = 0
        made = self.module = ModuleType("cupy.cuda.nccl")
        for place, name in enumerate(TYPES):
            setattr(made, f"NCCL_{name}", place)
        for place, name in enumerate(OPS):
            setattr(made, f"NCCL_{name}", place)
        made.get_version = lambda: 22809  # type: ignore[attr-defined]
        parts = {"available": True, "NcclError": NcclError, "NcclCommunicator": self}
        for name, value in {**parts, "groupStart": self.start, "groupEnd": self.end}.items():
            setattr(made, name, value)

    def install(self, patch: Any) -> None:
        """Put the module in CuPy's place."""
        cuda = ModuleType("cupy.cuda")
        cuda.nccl = self.module  # type: ignore[attr-defined]
        for name, module in {"cupy": ModuleType("cupy"), "cupy.cuda": cuda}.items():
            patch.setitem(sys.modules, name, module)
        patch.setitem(sys.modules, "cupy.cuda.nccl", self.module)

    def initAll(self, numbers: list[int]) -> list[Member]:
        self.answer()
        if len(set(numbers)) < len(numbers):
            raise NcclError(5)
        self.numbers = numbers
        return [Member(self, place, number) for place, number in enumerate(numbers)]

    def answer(self) -> None:
        """Fail if that was asked for."""
        if self.fails:
            code, self.fails = self.fails, 0
            raise NcclError(code)

    def start(self) -> None:
        self.within += 1

    def end(self) -> None:
        self.within -= 1
        waiting, self.waiting = self.waiting, []
        self.answer()
        members = len(self.numbers)
        queues: list[list[tuple[Any, ...]]] = [[] for _ in range(members)]
        for place, call in waiting:
            queues[place].append(call)
        self.groups.append(len(queues[0]))
        for calls in zip(*queues, strict=True):
            self.run([c[0] for c in calls], calls)

    def run(self, names: list[str], calls: tuple[tuple[Any, ...], ...]) -> None:
        """Carry out one collective of all members."""
        (name,) = set(names)
        assert len({c[3:] for c in calls}) == 1
        _, _, _, count, dtype, *rest = calls[0]
        kind = np.dtype(list(TYPES.values())[dtype])
        sends = count * len(calls) if name == "reduceScatter" else count
        given = [self.array(c[1], sends, kind).copy() for c in calls]
        if name in ("allReduce", "reduceScatter"):
            total = given[0]
            for other in given[1:]:
                total = list(OPS.values())[rest[0]](total, other)
            parts = np.split(total, len(calls)) if name == "reduceScatter" else [total] * len(calls)
        elif name == "allGather":
            parts = [np.concatenate(given)] * len(calls)
        else:
            assert name == "broadcast"
            parts = [given[rest[0]]] * len(calls)
        for call, part in zip(calls, parts, strict=True):
            self.array(call[2], part.size, kind)[...] = part

    def array(self, address: int, count: int, kind: Any) -> Any:
        return self.cuda.memory(address)[: count * kind.itemsize].view(kind)


class Member:
    """A communicator: what one GPU queues."""

    def __init__(self, nccl: Nccl, place: int, number: int) -> None:
        self.nccl = nccl
        self.place = place
        self.number = number
        self.destroyed = False

    def __getattr__(self, name: str) -> Any:
        if name not in ("allReduce", "reduceScatter", "allGather", "broadcast"):
            raise AttributeError(name)

        def queue(given: int, made: int, count: int, dtype: int, *rest: int) -> None:
            *others, stream = rest
            assert self.nccl.within, "calls of several GPUs belong into a group"
            assert stream == 77 + self.number
            assert count > 0
            self.nccl.answer()
            self.nccl.waiting.append((self.place, (name, given, made, count, dtype, *others)))

        return queue

    def destroy(self) -> None:
        assert not self.destroyed
        self.destroyed = True
