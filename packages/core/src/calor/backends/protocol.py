"""The contract between core and a backend. Core talks to nothing else.

Requirements: every method is declared and typed, nothing optional is found by ``hasattr`` (a
backend states its features in ``info``); a backend may own several devices, told apart by
``index``; buffers are dense and row-major, and belong to the backend that made them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from calor.backends.calls import BoundCall
from calor.dtypes import ALL, DType
from calor.errors import UnsupportedError
from calor.graph.graph import Graph
from calor.specs import Spec

if TYPE_CHECKING:
    from calor.backends.communication import Communicator

Level = Literal["full", "partial", "not_yet", "impossible"]


@dataclass(frozen=True, slots=True)
class State:
    """How far a capability goes. ``partial`` and ``impossible`` carry the reason."""

    level: Level
    reason: str = ""

    def __bool__(self) -> bool:
        return self.level in ("full", "partial")

    def __str__(self) -> str:
        return f"{self.level} ({self.reason})" if self.reason else self.level


FULL = State("full")
NOT_YET = State("not_yet")


def partial(reason: str) -> State:
    """Return the state of a capability that holds with the stated limits."""
    return State("partial", reason)


def impossible(reason: str) -> State:
    """Return the state of a capability that the device can never have, with the reason."""
    return State("impossible", reason)


# The features that a backend may state; one that it does not name is not_yet.
FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "interactive": "compiles fast enough that a print may compile",
        "dynamic_shapes": "runs graphs of any static shape without a compile in the minutes",
        "control_flow": "runs cond, while_loop and scan nodes itself",
        "in_place": "writes outputs into given buffers",
        "host_views": "download returns a read-only view of the buffer's own memory",
        "dlpack": "exchanges buffers through DLPack without a copy",
        "serialize": "executables can be stored and loaded",
        "memory_limit": "the memory limit can be set",
        "fork": "works on in a forked child process",
        "quantized_only": "runs only quantised graphs",
        "collectives": "its devices exchange what they have by means of their own",
    }
)


@dataclass(frozen=True, slots=True)
class Info:
    """What a device is and can do.

    ``dtypes``: a state per dtype; one that is not named is impossible. ``ops``: a state per op
    name, or per (op name, dtype), where it differs from full. ``limits``: numbers such as
    ``max_rank`` or ``max_buffer_bytes``. ``flushes``: the floating dtypes, declared partial, of
    which numbers below the smallest normal one may be taken for zeros, as operands and as results.
    """

    description: str
    dtypes: Mapping[DType, State] = field(default_factory=lambda: dict.fromkeys(ALL, FULL))
    features: Mapping[str, State] = field(default_factory=dict)
    ops: Mapping[str | tuple[str, DType], State] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    flushes: frozenset[DType] = frozenset()

    def feature(self, name: str) -> State:
        """Return the state of a feature of FEATURES; KeyError for a name that is none."""
        if name not in FEATURES:
            raise KeyError(f"{name!r} is no feature; there are {', '.join(FEATURES)}")
        return self.features.get(name, NOT_YET)

    def supports(self, op: str, dtype: DType) -> State:
        """Return the state of an op for operands and results of a dtype."""
        state = self.dtypes.get(dtype)
        if state is None:
            return impossible(f"the device has no {dtype.name}")
        if not state:
            return state
        return self.ops.get((op, dtype), self.ops.get(op, state))

    def objections(self, graph: Graph) -> dict[int, str]:
        """Return, for each node that the description rules out, why: its dtypes or its op."""
        found: dict[int, str] = {}
        specs = graph.specs
        for number, node in enumerate(graph.nodes):
            name = node.op.name
            for dtype in dict.fromkeys(specs[v].dtype for v in (*node.inputs, *node.outputs)):
                state = self.supports(name, dtype)
                if not state:
                    found[number] = f"{dtype.name} is {state}"
                    break
            else:
                bodies = (v for v in node.attributes.values() if isinstance(v, Graph))
                inner = next((why for b in bodies for why in self.objections(b).values()), None)
                if inner is not None:
                    found[number] = f"in its sub-graph, {inner}"
        return found


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """Bytes in use by live buffers, the highest use so far, and the limit (None: the system's)."""

    in_use: int
    peak: int
    limit: int | None


class Buffer(Protocol):
    """A dense, row-major piece of device memory that holds one value."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        ...

    @property
    def exported(self) -> bool:
        """True while something outside calor can see the memory (a NumPy view, DLPack)."""
        ...


class Executable(Protocol):
    """A compiled graph.

    ``required_bytes`` is what a call allocates at most, known before it runs.
    """

    required_bytes: int

    def __call__(
        self, inputs: Sequence[Any], into: Sequence[Buffer | None] | None = None
    ) -> list[Any]:
        """Run. ``inputs`` are buffers, or host numbers and arrays where ``graph.host`` says so.

        ``into`` names, per output, a buffer of the same size to write in place, or None for a
        fresh one. Everything is reserved before the first write in place, so that running out of
        memory leaves the state as it was.
        """
        ...


@dataclass(frozen=True, slots=True)
class Claim:
    """Which nodes of a graph a backend takes.

    ``parts``: groups of node indices that the device would compile together; core cuts a group
    where a node outside it stands between two of its nodes. ``reasons``: for every node that is in
    no part, why.
    """

    parts: tuple[tuple[int, ...], ...]
    reasons: Mapping[int, str] = field(default_factory=dict)


class Backend(ABC):
    """One kind of device. ``index`` tells a backend's devices apart, from 0."""

    name: str

    def device_name(self, index: int) -> str:
        """Return the name by which users ask for a device: the backend's name and the index."""
        return f"{self.name}:{index}"

    @abstractmethod
    def enumerate(self) -> int:
        """Return how many devices are present; 0 when there is none. Cheap, and never raises."""

    def opened(self, index: int) -> bool:
        """Return whether a device was ever used here; what was not, a forked child leaves alone.

        To ask a driver for the first time after a fork may hang.
        """
        return True

    def diagnosis(self) -> Sequence[tuple[str, str]]:
        """Return what the devices need, and what was found of it, for ``python -m calor doctor``.

        Rows of two texts: a package, a driver or a device, and its version or what to do about it.
        It raises nothing.
        """
        return ()

    @abstractmethod
    def info(self, index: int) -> Info:
        """Return what the device is and can do."""

    @abstractmethod
    def upload(self, index: int, array: np.ndarray[Any, Any]) -> Buffer:
        """Copy a contiguous host array to a new buffer; the array may change afterwards."""

    @abstractmethod
    def download(self, index: int, buffer: Any, spec: Spec) -> np.ndarray[Any, Any]:
        """Return the buffer's contents; a read-only view when the feature host_views is full."""

    @abstractmethod
    def copy(self, index: int, buffer: Any, spec: Spec, target: int) -> Buffer:
        """Copy a buffer to another device of this backend (or the same one)."""

    @abstractmethod
    def claim(self, index: int, graph: Graph) -> Claim:
        """Say which nodes the device takes, and why not the rest. Compiles nothing."""

    @abstractmethod
    def compile(self, index: int, graph: Graph) -> Executable:
        """Return the executable of a graph that ``claim`` took whole; CompileError on failure."""

    @abstractmethod
    def synchronize(self, index: int) -> None:
        """Wait until everything submitted has finished; raise what went wrong as a DeviceError."""

    @abstractmethod
    def memory(self, index: int) -> MemoryFigures:
        """Return the memory figures of the device."""

    def set_memory_limit(self, index: int, limit: int | None) -> None:
        """Set the limit in bytes, None for the system's; needs the feature memory_limit."""
        raise UnsupportedError(f"backend {self.name!r} has no settable memory limit")

    def dlpack(self, index: int, buffer: Any, spec: Spec, **options: Any) -> Any:
        """Return a DLPack capsule that shares the buffer; needs the feature dlpack."""
        raise UnsupportedError(f"backend {self.name!r} does not export DLPack; use x.numpy()")

    def dlpack_device(self, index: int) -> tuple[int, int]:
        """Return the DLPack device type and id (1, 0 is the host)."""
        return (1, 0)

    def from_dlpack(self, index: int, array: Any, copy: bool) -> tuple[Buffer, Spec]:
        """Return another library's array on this device as a buffer, its own where ``copy``.

        It needs the feature dlpack, and a DLPack device other than the host's. ExchangeError where
        memory cannot be shared as it lies, and ``copy`` is False.
        """
        raise UnsupportedError(f"backend {self.name!r} takes no memory through DLPack; it copies")

    def cuda_array_interface(self, index: int, buffer: Any, spec: Spec) -> dict[str, Any] | None:
        """Return what Numba's protocol of this name says of a buffer; None on other devices."""
        return None

    def adopt(self, index: int, array: np.ndarray[Any, Any]) -> Buffer:
        """Return a buffer that shares a host array's memory; needs the feature host_views."""
        raise UnsupportedError(f"backend {self.name!r} cannot share host memory; it copies")

    def caller(
        self, index: int, executable: Executable, call: BoundCall
    ) -> Callable[..., Any] | None:
        """Return a compiled bound call of an executable; None: it is made in Python as ever."""
        return None

    def communicator(self, indices: Sequence[int]) -> Communicator:
        """Return what carries out collectives of devices of this backend, in this order.

        It needs the feature collectives; core has copies for all others. DeviceError where the
        means that it needs are missing or fail.
        """
        raise UnsupportedError(f"backend {self.name!r} has no collectives of its own; core copies")

    def serialize(self, index: int, executable: Executable) -> bytes:
        """Return the executable as bytes for ``deserialize``; needs the feature serialize."""
        raise UnsupportedError(f"backend {self.name!r} cannot store executables")

    def deserialize(self, index: int, data: bytes) -> Executable:
        """Return the executable stored by ``serialize``; needs the feature serialize."""
        raise UnsupportedError(f"backend {self.name!r} cannot load executables")

    def close(self) -> None:  # noqa: B027 - most backends hold nothing that needs closing
        """Free everything; the backend is not used afterwards."""
