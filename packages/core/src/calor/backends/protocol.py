"""The contract between core and a backend. Core talks to nothing else.

Requirements: every method is declared and typed, nothing optional is found by ``hasattr`` (a
backend states its features in ``info``); a backend may own several devices, told apart by
``index``; buffers are dense and row-major, and belong to the backend that made them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from calor.backends.buffer import Buffer
from calor.backends.calls import BoundCall
from calor.backends.capabilities import (
    FEATURES,
    FULL,
    NOT_YET,
    Info,
    Level,
    MemoryFigures,
    State,
    impossible,
    partial,
)
from calor.backends.events import Watched
from calor.backends.handing import Receives
from calor.backends.host_memory import HostMemory
from calor.backends.sized_graphs import PlansSizes
from calor.backends.tuned import Tuned
from calor.errors import MemoryLimitError, UnsupportedError
from calor.graph.graph import Graph
from calor.specs import Spec

if TYPE_CHECKING:
    from calor.backends.communication import Communicator

__all__ = [
    "FEATURES",
    "FULL",
    "NOT_YET",
    "Backend",
    "Buffer",
    "Claim",
    "Executable",
    "Info",
    "Level",
    "MemoryFigures",
    "State",
    "Tuned",
    "impossible",
    "partial",
]


class Executable(Protocol):  # numpydoc ignore=RS01
    """A compiled graph."""

    @property
    def required_bytes(self) -> int:
        """What a call allocates at most, known before it."""
        ...

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
    """Which nodes of a graph a backend runs.

    Parameters
    ----------
    parts : tuple of tuple of int
        Positions of nodes that the device would compile together. Core cuts a group where a node
        outside it stands between two of its nodes.
    reasons : mapping of int to str, optional
        Why, for every node that is in no part.
    """

    parts: tuple[tuple[int, ...], ...]
    reasons: Mapping[int, str] = field(default_factory=dict)


class Backend(Watched, PlansSizes, Receives, HostMemory, ABC):
    """One kind of device. The ``index`` of its methods tells its devices apart, from 0."""

    name: str

    def device_name(self, index: int) -> str:
        """Return the name by which users ask for a device.

        Parameters
        ----------
        index : int
            The device.

        Returns
        -------
        str
            By default the backend's name, a colon and the index.
        """
        return f"{self.name}:{index}"

    @abstractmethod
    def enumerate(self) -> int:
        """Return how many devices are present. It is cheap and never raises.

        Returns
        -------
        int
            The number; 0 if there is none.
        """

    def opened(self, index: int) -> bool:
        """Tell whether a device was used in this process; a forked child leaves others alone.

        The first call of a driver after a fork may hang.

        Parameters
        ----------
        index : int
            The device.

        Returns
        -------
        bool
            By default True.
        """
        return True

    def diagnosis(self) -> Sequence[tuple[str, str]]:
        """Return what the devices need and what was found, for ``python -m calor doctor``.

        Returns
        -------
        sequence of tuple of str
            Pairs: a package, driver or device, and its version or what to do about it. The method
            never raises.
        """
        return ()

    @abstractmethod
    def info(self, index: int) -> Info:
        """Return what a device is and can do.

        Parameters
        ----------
        index : int
            The device.

        Returns
        -------
        Info
            The description.
        """

    @abstractmethod
    def upload(self, index: int, array: np.ndarray[Any, Any]) -> Buffer:
        """Copy a host array to a new buffer.

        Parameters
        ----------
        index : int
            The device.
        array : numpy.ndarray
            A contiguous array; it may change after the call.

        Returns
        -------
        Buffer
            The buffer.
        """

    @abstractmethod
    def download(self, index: int, buffer: Any, spec: Spec) -> np.ndarray[Any, Any]:
        """Return the contents of a buffer as a host array.

        Parameters
        ----------
        index : int
            The device.
        buffer : Buffer
            A buffer of this device.
        spec : Spec
            Shape and dtype of its value.

        Returns
        -------
        numpy.ndarray
            A read-only view if the feature host_views is full, else a copy.
        """

    @abstractmethod
    def copy(self, index: int, buffer: Any, spec: Spec, target: int) -> Buffer:
        """Copy a buffer to a device of this backend.

        Parameters
        ----------
        index : int
            The device that has the buffer.
        buffer : Buffer
            The buffer.
        spec : Spec
            Shape and dtype of its value.
        target : int
            The device to copy to; it may be the same one.

        Returns
        -------
        Buffer
            A new buffer on the target.
        """

    @abstractmethod
    def claim(self, index: int, graph: Graph) -> Claim:
        """Say which nodes of a graph the device runs, and why not the rest. Compile nothing.

        Parameters
        ----------
        index : int
            The device.
        graph : Graph
            The graph.

        Returns
        -------
        Claim
            The nodes that it runs, in parts, and the reasons for the others.
        """

    @abstractmethod
    def compile(self, index: int, graph: Graph) -> Executable:
        """Return the executable of a graph of which `claim` took every node.

        Parameters
        ----------
        index : int
            The device.
        graph : Graph
            The graph.

        Returns
        -------
        Executable
            The executable.

        Raises
        ------
        CompileError
            If the graph cannot be compiled after all.
        """

    def compile_within(
        self, index: int, graph: Graph, limit: int, in_place: Mapping[int, int]
    ) -> Executable:
        """Return an executable of a graph, as `compile` does, that allocates little.

        Parameters
        ----------
        index : int
            The device.
        graph : Graph
            The graph.
        limit : int
            The most bytes that a call allocates, beside its inputs.
        in_place : mapping of int to int
            The outputs that calls write to the memory of an input, with that input.

        Returns
        -------
        Executable
            The executable. Its results have the bits of those without a limit. By default it is
            that of `compile`, if it fits.

        Raises
        ------
        MemoryLimitError
            If a call needs more; ``smallest`` says how much.
        """
        made = self.compile(index, graph)
        if made.required_bytes > limit:
            raise MemoryLimitError(smallest=made.required_bytes)
        return made

    @abstractmethod
    def synchronize(self, index: int) -> None:
        """Wait until all submitted work has finished.

        Parameters
        ----------
        index : int
            The device.

        Raises
        ------
        DeviceError
            If something submitted failed.
        """

    def verify(self, index: int, buffers: Sequence[Any]) -> None:
        """Raise the error of a run that has not made the contents of a buffer, after a wait for it.

        A device that reports failures only when a result is read overrides it.

        Parameters
        ----------
        index : int
            The device.
        buffers : sequence of Buffer
            Results of earlier runs.

        Raises
        ------
        DeviceError
            If one of the runs failed.
        """

    @abstractmethod
    def memory(self, index: int) -> MemoryFigures:
        """Return how many bytes of a device are in use.

        Parameters
        ----------
        index : int
            The device.

        Returns
        -------
        MemoryFigures
            The figures.
        """

    def set_memory_limit(self, index: int, limit: int | None) -> None:
        """Set the most bytes that a device may hold; needs the feature memory_limit.

        Parameters
        ----------
        index : int
            The device.
        limit : int or None
            The bytes; None for the limit of the system.

        Raises
        ------
        UnsupportedError
            If the backend does not have the feature.
        """
        raise UnsupportedError(f"backend {self.name!r} has no settable memory limit")

    def dlpack(self, index: int, buffer: Any, spec: Spec, **options: Any) -> Any:
        """Return a DLPack capsule that shares a buffer's memory; needs the feature dlpack.

        Parameters
        ----------
        index : int
            The device.
        buffer : Buffer
            The buffer.
        spec : Spec
            Shape and dtype of its value.
        **options : Any
            The options of ``__dlpack__``.

        Returns
        -------
        PyCapsule
            The capsule.

        Raises
        ------
        UnsupportedError
            If the backend does not have the feature.
        """
        raise UnsupportedError(f"backend {self.name!r} does not export DLPack; use x.numpy()")

    def dlpack_device(self, index: int) -> tuple[int, int]:
        """Return the DLPack device type and number.

        Parameters
        ----------
        index : int
            The device.

        Returns
        -------
        tuple of int
            By default (1, 0), the host.
        """
        return (1, 0)

    def from_dlpack(self, index: int, array: Any, copy: bool) -> tuple[Buffer, Spec]:
        """Return another library's array as a buffer; needs the feature dlpack.

        It is called only for backends with another DLPack device than the host's.

        Parameters
        ----------
        index : int
            The device.
        array : object
            An array with ``__dlpack__`` on this device.
        copy : bool
            Whether the buffer has memory of its own.

        Returns
        -------
        tuple
            The buffer and its Spec.

        Raises
        ------
        UnsupportedError
            If the backend does not have the feature.
        ExchangeError
            If ``copy`` is False and the memory's layout cannot be shared.
        """
        raise UnsupportedError(f"backend {self.name!r} takes no memory through DLPack; it copies")

    def cuda_array_interface(self, index: int, buffer: Any, spec: Spec) -> dict[str, Any] | None:
        """Return a buffer's description in Numba's CUDA array interface.

        Parameters
        ----------
        index : int
            The device.
        buffer : Buffer
            The buffer.
        spec : Spec
            Shape and dtype of its value.

        Returns
        -------
        dict or None
            The description; None for devices without it, the default.
        """
        return None

    def adopt(self, index: int, array: np.ndarray[Any, Any]) -> Buffer:
        """Return a buffer that shares a host array's memory; needs the feature host_views.

        Parameters
        ----------
        index : int
            The device.
        array : numpy.ndarray
            A contiguous array.

        Returns
        -------
        Buffer
            The buffer.

        Raises
        ------
        UnsupportedError
            If the backend does not have the feature.
        """
        raise UnsupportedError(f"backend {self.name!r} cannot share host memory; it copies")

    def caller(
        self, index: int, executable: Executable, call: BoundCall
    ) -> Callable[..., Any] | None:
        """Return a compiled function that runs a bound call of an executable.

        Parameters
        ----------
        index : int
            The device.
        executable : Executable
            The executable.
        call : BoundCall
            What the call fixes and what it takes.

        Returns
        -------
        callable or None
            The function; None, the default, if calls are to be made in Python.
        """
        return None

    def tuning(self, index: int, seconds: float) -> AbstractContextManager[Tuned] | None:
        """Return a context in which the kernels of all compiled graphs are measured.

        Parameters
        ----------
        index : int
            The device.
        seconds : float
            The time for measuring, in seconds.

        Returns
        -------
        context manager of Tuned or None
            What was measured, complete when the context ends; None, the default, if the backend has
            one way to do each operation.
        """
        return None

    def bundle(self, index: int) -> Mapping[str, Any] | None:
        """Return the stored results of tuning as plain data, to ship them.

        Parameters
        ----------
        index : int
            The device.

        Returns
        -------
        mapping or None
            Lists, mappings, texts and numbers; the item ``"choices"`` is a mapping. None, the
            default, if the backend has one way to do each operation.
        """
        return None

    def communicator(self, indices: Sequence[int]) -> Communicator:
        """Return what runs collectives of several devices; needs the feature collectives.

        For backends without the feature core makes copies.

        Parameters
        ----------
        indices : sequence of int
            The devices, in the order of the group.

        Returns
        -------
        Communicator
            The collectives.

        Raises
        ------
        UnsupportedError
            If the backend does not have the feature.
        DeviceError
            If a library that it needs is missing or fails.
        """
        raise UnsupportedError(f"backend {self.name!r} has no collectives of its own; core copies")

    def serialize(self, index: int, executable: Executable) -> bytes:
        """Return an executable as bytes; needs the feature serialize.

        Parameters
        ----------
        index : int
            The device.
        executable : Executable
            The executable.

        Returns
        -------
        bytes
            What `deserialize` takes.

        Raises
        ------
        UnsupportedError
            If the backend does not have the feature.
        """
        raise UnsupportedError(f"backend {self.name!r} cannot store executables")

    def deserialize(self, index: int, data: bytes) -> Executable:
        """Return the executable that `serialize` stored; needs the feature serialize.

        Parameters
        ----------
        index : int
            The device.
        data : bytes
            What `serialize` returned.

        Returns
        -------
        Executable
            The executable.

        Raises
        ------
        UnsupportedError
            If the backend does not have the feature.
        """
        raise UnsupportedError(f"backend {self.name!r} cannot load executables")

    def close(self) -> None:
        """Free everything. The backend is not used afterwards."""
