"""KernelBackend: core's interface to every device that runs calor's kernels.

Requirements: a plugin gives a name and devices; nothing here depends on a particular device. The
device's abilities follow from its info and from the kernel families, so claims and declarations
cannot disagree.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from calor.backends.calls import BoundCall
from calor.backends.communication import Communicator
from calor.backends.events import Listener
from calor.backends.protocol import Backend, Claim, Executable, Info, MemoryFigures, Tuned
from calor.device_selection import as_device, current_device
from calor.errors import UnsupportedError
from calor.graph.file import load, save
from calor.graph.graph import Graph
from calor.sizes import Trace
from calor.specs import Spec
from calor_kernel.contract.fuser import Fuser
from calor_kernel.device.buffers import AdoptedBuffer, ForeignBuffer, KernelBuffer, ShadowedBuffer
from calor_kernel.device.outcomes import inherit, verify
from calor_kernel.device.pool import PoolFigures
from calor_kernel.device.protocol import Device
from calor_kernel.planning.compiling import compile_graph, known_in_stages, refusals
from calor_kernel.planning.fast_path import caller
from calor_kernel.planning.limited import compile_within
from calor_kernel.planning.sized_graph import SizedPlans, sized_plans
from calor_kernel.runtime import bundles
from calor_kernel.runtime.communicator import KernelCommunicator
from calor_kernel.runtime.engine import Engine
from calor_kernel.runtime.launch_events import profiling

Array = np.ndarray[Any, Any]


class KernelBackend(Backend):
    """The devices of one name; ``open_device(index)`` opens a device on first use.

    ``fusers``: the fusers for parts of graphs; None means those of the installed plugins.
    ``diagnose`` returns the rows of ``python -m calor doctor`` about these devices.
    """

    def __init__(
        self,
        name: str,
        open_device: Callable[[int], Device],
        count: Callable[[], int] = lambda: 1,
        fusers: Sequence[Fuser] | None = None,
        diagnose: Callable[[], Sequence[tuple[str, str]]] = tuple,
    ) -> None:
        self.name = name
        self._diagnose = diagnose
        self._open = open_device
        self._count = count
        self._fusers = fusers
        self._engines: dict[int, Engine] = {}
        self._opening = threading.RLock()
        _BACKENDS.add(self)

    def engine(self, index: int) -> Engine:
        """Return the engine of a device, opened on first use."""
        found = self._engines.get(index)
        if found is None:
            # Opening twice would combine memory of one context with kernels of another.
            with self._opening:
                found = self._engines.get(index)
                if found is None:
                    found = self._engines[index] = Engine(self._open(index), self._fusers)
        return found

    def opened(self, index: int) -> bool:
        """Return whether a device was opened."""
        return index in self._engines

    def enumerate(self) -> int:
        return self._count()

    def diagnosis(self) -> Sequence[tuple[str, str]]:
        """Return the plugin's findings about its devices, and the bundles for open ones."""
        rows = [*self._diagnose()]
        for index, engine in sorted(self._engines.items()):
            name = self.device_name(index)
            rows += ((f"{file} on {name}", use) for file, use in engine.tuner.bundles.report())
        return rows

    def info(self, index: int) -> Info:
        """Return the device info, from its description and the kernel families."""
        return self.engine(index).described

    # Memory.
    def upload(self, index: int, array: Array) -> KernelBuffer:
        """Copy a host array."""
        pool = self.engine(index).pool
        buffer = pool.take(array.nbytes)
        pool.memory.copy_in(buffer.handle, 0, array)
        return buffer

    def download(self, index: int, buffer: Any, spec: Spec) -> Array:
        """Return a view if the host can read the memory, else a copy."""
        engine = self.engine(index)
        if engine.host_memory:
            engine.device.queue.synchronize()
            view: Array = buffer.view(spec)
            return view
        array = np.empty(spec.shape, spec.dtype.numpy)
        self._read(engine, buffer, array)
        return array

    @staticmethod
    def _read(engine: Engine, buffer: Any, array: Array) -> None:
        with engine.naming():
            verify(buffer)
            engine.pool.memory.copy_out(buffer.handle, 0, array)

    def host_array(self, index: int, nbytes: int) -> Array:
        """Return memory that the device copies fast."""
        found = self.engine(index).pool.memory.host_array(nbytes)
        return super().host_array(index, nbytes) if found is None else found

    def offload(self, index: int, buffer: Any, spec: Spec) -> Array:
        """Return a copy in memory of `host_array`."""
        engine = self.engine(index)
        if engine.host_memory:
            return super().offload(index, buffer, spec)
        room = self.host_array(index, spec.nbytes)
        array: Array = room.view(spec.dtype.numpy).reshape(spec.shape)
        self._read(engine, buffer, array)
        return array

    def unload(self, index: int, buffer: Any, spec: Spec) -> Array:
        """Begin to copy to memory of `host_array`."""
        engine = self.engine(index)
        if engine.host_memory:
            return super().offload(index, buffer, spec)
        room = self.host_array(index, spec.nbytes)
        array: Array = room.view(spec.dtype.numpy).reshape(spec.shape)
        with engine.naming():
            verify(buffer)
            engine.pool.memory.unload(buffer.handle, array)
        return array

    def unloaded(self, index: int) -> None:
        """Wait for copies to the host."""
        engine = self.engine(index)
        if not engine.host_memory:
            engine.device.queue.synchronize()

    def load(self, index: int, array: Array) -> KernelBuffer:
        """Begin to copy a host array that never changes."""
        pool = self.engine(index).pool
        buffer = pool.take(array.nbytes)
        pool.memory.load(buffer.handle, array)
        return buffer

    def loaded(self, index: int, buffers: Sequence[Any] | None = None) -> None:
        """Let queued work wait for loads."""
        handles = None if buffers is None else [b.handle for b in buffers]
        self.engine(index).pool.memory.settle(handles)

    def copy(self, index: int, buffer: Any, spec: Spec, target: int) -> KernelBuffer:
        """Copy on the device, or to another one: directly if they are connected."""
        pool = self.engine(index).pool
        if target != index:
            there = self.engine(target).pool
            made = there.take(buffer.nbytes)
            if there.memory.receive(made.handle, 0, pool.memory, buffer.handle, 0, buffer.nbytes):
                inherit(made, [buffer])
                return made
            there.memory.copy_in(made.handle, 0, self.download(index, buffer, spec))
            return made
        made = pool.take(buffer.nbytes)
        pool.memory.copy(made.handle, 0, buffer.handle, 0, buffer.nbytes)
        inherit(made, [buffer])
        return made

    def adopt(self, index: int, array: Array) -> KernelBuffer:
        """Share a host array's memory."""
        engine = self.engine(index)
        if not engine.host_memory:
            return super().adopt(index, array)  # type: ignore[return-value]
        address = array.__array_interface__["data"][0]
        handle = None
        if address % engine.device.info.align == 0:
            handle = engine.device.memory.adopt(address, array.nbytes)
        if handle is None:
            return ShadowedBuffer(engine.pool, array)
        return AdoptedBuffer(engine.pool, handle, array)

    def dlpack(self, index: int, buffer: Any, spec: Spec, **options: Any) -> Any:
        """Return NumPy's capsule of the memory, read-only if the consumer supports that."""
        version = options.get("max_version")
        tells = version is not None and version[0] >= 1
        exchange = self.engine(index).device.exchange
        if exchange is not None:
            verify(buffer)
            owner = buffer.lend(buffer.handle, not tells)
            return exchange.dlpack(buffer.handle, spec, owner, **options)
        if not self.engine(index).host_memory:
            return super().dlpack(index, buffer, spec, **options)
        self.engine(index).device.queue.synchronize()
        return buffer.view(spec, writable=not tells).__dlpack__(**options)

    def dlpack_device(self, index: int) -> tuple[int, int]:
        """Return the device's DLPack type and number, or the host's."""
        exchange = self.engine(index).device.exchange
        return super().dlpack_device(index) if exchange is None else exchange.place

    def from_dlpack(self, index: int, array: Any, copy: bool) -> tuple[KernelBuffer, Spec]:
        """Take another library's memory on the device, or copy it to the device."""
        engine = self.engine(index)
        exchange = engine.device.exchange
        if exchange is None:
            return super().from_dlpack(index, array, copy)  # type: ignore[return-value]
        handle, spec, owner = exchange.take(array, copy)
        finish = engine.device.queue.synchronize
        if not copy:
            return ForeignBuffer(engine.pool, handle, spec.nbytes, owner, finish), spec
        made = engine.pool.take(spec.nbytes)
        engine.pool.memory.copy(made.handle, 0, handle, 0, spec.nbytes)
        # Its owner may reuse the memory as soon as it is released here.
        finish()
        return made, spec

    def cuda_array_interface(self, index: int, buffer: Any, spec: Spec) -> dict[str, Any] | None:
        """Return the device's answer; it pins the memory for the tensor's lifetime."""
        exchange = self.engine(index).device.exchange
        if exchange is None:
            return None
        verify(buffer)
        buffer.keep_lent()
        return exchange.cuda_array_interface(buffer.handle, spec)

    def memory(self, index: int) -> MemoryFigures:
        """Return the pool's counters."""
        figures = self.engine(index).pool.figures()
        return MemoryFigures(figures.in_use, figures.peak, figures.limit)

    def set_memory_limit(self, index: int, limit: int | None) -> None:
        self.engine(index).pool.set_limit(limit)

    def communicator(self, indices: Sequence[int]) -> Communicator:
        """Return the links between the devices; they need the feature."""
        engines = [self.engine(i) for i in indices]
        if not all(e.device.info.has("links") for e in engines):
            return super().communicator(indices)
        devices = [e.device for e in engines]
        return KernelCommunicator(engines, devices[0].link(devices))

    def profiling(self, index: int, listener: Listener) -> AbstractContextManager[None]:
        """Report each launch; launches are waited for meanwhile."""
        return profiling(self.engine(index), listener)

    # Graphs.
    def claim(self, index: int, graph: Graph) -> Claim:
        """Claim the ops of the kernel families and the ops without a kernel."""
        engine = self.engine(index)
        if (
            engine.replanning.fits(graph)
            or known_in_stages(engine, graph)
            or engine.drafts.knows(graph)
        ):
            return _whole(len(graph.nodes))
        reasons = refusals(engine, graph)
        taken = tuple(i for i in range(len(graph.nodes)) if i not in reasons)
        return Claim((taken,) if taken else (), reasons)

    def sized(
        self, index: int, graph: Graph, known: Graph, trace: Trace, lasting: Collection[int]
    ) -> SizedPlans | None:
        """Return what finds the plans of a graph with symbolic sizes among the templates."""
        return sized_plans(self.engine(index), graph, known, trace, lasting)

    def compile(self, index: int, graph: Graph) -> Executable:
        """Plan a graph, compile its kernels and record its launches."""
        return compile_graph(self.engine(index), graph)

    def compile_within(
        self, index: int, graph: Graph, limit: int, in_place: Mapping[int, int]
    ) -> Executable:
        """Plan a graph, and let tasks run again until a call allocates no more than the limit."""
        return compile_within(self.engine(index), graph, limit, in_place)

    def caller(
        self, index: int, executable: Executable, call: BoundCall
    ) -> Callable[..., Any] | None:
        """Compile a bound call of a plan with a fast path, if the device can."""
        return caller(executable, call)

    def serialize(self, index: int, executable: Any) -> bytes:
        """Return the serialized graph; its kernels are shipped in bundles."""
        return save(executable.graph)

    def deserialize(self, index: int, data: bytes) -> Executable:
        """Plan the stored graph; kernels come from the cache and from bundles if available."""
        return self.compile(index, load(data))

    def tuning(self, index: int, seconds: float) -> AbstractContextManager[Tuned]:
        """Time the candidates of the tasks of all graphs that are compiled in a context."""
        return self.engine(index).tuning(seconds)

    def bundle(self, index: int) -> Mapping[str, Any]:
        """Return the stored results for which another candidate than the first choice gains."""
        engine = self.engine(index)
        return bundles.made(engine.device, dict(engine.tuner.lines.items()))

    def verify(self, index: int, buffers: Sequence[Any]) -> None:
        """Raise the error that the contents of a buffer depend on."""
        with self.engine(index).naming():
            for buffer in buffers:
                verify(buffer)

    def synchronize(self, index: int) -> None:
        """Wait for the queue, and raise any failure."""
        self.engine(index).synchronize()

    def close(self) -> None:
        for engine in self._engines.values():
            engine.device.close()
        self._engines.clear()

    def restart(self) -> None:
        """Resume in a forked child."""
        self._opening = threading.RLock()
        for engine in self._engines.values():
            if engine.device.info.has("fork"):
                engine.restart()


def engine_of(device: Any, what: str) -> Engine:
    """Return the engine of a device (None: the current one); UnsupportedError with ``what``."""
    place = current_device() if device is None else as_device(device)
    backend = place.backend
    if not isinstance(backend, KernelBackend):
        raise UnsupportedError(f"{place.name} runs no kernels of calor's, so {what}")
    return backend.engine(place.index)


def memory(device: Any = None) -> PoolFigures:
    """Return the allocator's byte counts for a device (None: the current one).

    ``in_use``: the requested bytes of live buffers, with the maximum ``peak``. ``held``: the device
    memory held, idle memory included, with the maximum ``held_peak``. ``limit``: the limit or None.
    UnsupportedError for a device that does not run kernels.

    >>> import calor, calor_kernel
    >>> kept = calor.ones((1000, 1000), device="cpu") + 1  # doctest: +SKIP
    >>> calor_kernel.memory("cpu")  # doctest: +SKIP
    PoolFigures(in_use=4000000, peak=4000000, held=20971520, held_peak=20971520, limit=None)
    """
    return engine_of(device, "it has no such figures").pool.figures()


def trim(device: Any = None) -> int:
    """Return the allocator's idle memory of a device to the system; return the bytes freed.

    Cached preparations of unchanged operands are freed too, and rebuilt when needed.
    UnsupportedError for a device that does not run kernels.

    >>> import calor_kernel
    >>> calor_kernel.trim("cpu")  # doctest: +SKIP
    16777216
    """
    engine = engine_of(device, "it holds no idle memory")
    engine.device.queue.synchronize()
    before = engine.pool.held
    engine.pool.trim()
    return before - engine.pool.held


@lru_cache(256)
def _whole(nodes: int) -> Claim:
    """Return the claim of a whole graph with so many nodes."""
    return Claim((tuple(range(nodes)),), MappingProxyType({}))


_BACKENDS: weakref.WeakSet[KernelBackend] = weakref.WeakSet()


def _after_fork() -> None:
    for backend in _BACKENDS:
        backend.restart()


os.register_at_fork(after_in_child=_after_fork)
