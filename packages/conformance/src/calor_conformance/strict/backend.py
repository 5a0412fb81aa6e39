"""The strict backend: a proxy that checks every call between core and another backend.

``strict:cuda:1`` is the device ``cuda:1`` with checks of types, sizes, features, lifetimes and
memory. It exposes the protocol only, so core cannot depend on extras of one backend. A broken rule
raises ProtocolError, whichever side broke it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final, TypeVar

import numpy as np

from calor.backends.device import Device, device_of
from calor.backends.events import Listener
from calor.backends.protocol import (
    FEATURES,
    Backend,
    Buffer,
    Claim,
    Executable,
    Info,
    MemoryFigures,
    State,
)
from calor.dtypes import ALL, DType, as_dtype
from calor.errors import CalorError, DTypeError, UnsupportedError
from calor.graph.graph import Graph
from calor.graph.verify import verify
from calor.ops.base import TABLE, table
from calor.plugins.discovery import get_device
from calor.specs import Spec, spec
from calor_conformance.strict.executable import StrictCommunicator, StrictExecutable
from calor_conformance.strict.rules import (
    DIGEST_LIMIT,
    StrictBuffer,
    claim_faults,
    digest,
    require,
)

SCHEME: Final = "strict:"
T = TypeVar("T")
_opened: dict[int, StrictBackend] = {}


def open_strict(text: str) -> Device:
    """Return the checked device of ``strict:NAME``."""
    return strict_of(get_device(text.removeprefix(SCHEME)))


def strict_of(device: Device) -> Device:
    """Return the device behind the checking proxy; one proxy for each backend."""
    if isinstance(device.backend, StrictBackend):
        return device
    proxy = _opened.get(id(device.backend))
    if proxy is None or proxy.inner is not device.backend:
        proxy = _opened[id(device.backend)] = StrictBackend(device.backend)
    return device_of(proxy, device.index)


class StrictBackend(Backend):
    """A backend that checks the calls to ``inner`` and their results."""

    def __init__(self, inner: Backend) -> None:
        self.inner: Final = inner
        self.name = SCHEME + inner.name
        self.closed = False
        # The live inner buffers by identity; none of them may be returned as a new one.
        self.live: weakref.WeakValueDictionary[int, StrictBuffer] = weakref.WeakValueDictionary()

    def device_name(self, index: int) -> str:
        """Return the inner device's name behind the scheme."""
        return SCHEME + self.inner.device_name(index)

    def opened(self, index: int) -> bool:
        """Return the inner backend's answer."""
        return self.inner.opened(index)

    def enumerate(self) -> int:
        """Return the number of devices, which must be a number."""
        try:
            count = self.inner.enumerate()
        except Exception as error:
            self.require(False, "enumerate", f"it raised {error!r}")
            raise
        self.require(type(count) is int and count >= 0, "enumerate", f"it returned {count!r}")
        return count

    def info(self, index: int) -> Info:
        """Return the checked description, marked as strict."""
        self._enter(index)
        info = self.inner.info(index)
        self.require(isinstance(info, Info), "info", f"it is a {type(info).__name__}")
        for name, state in info.features.items():
            self.require(name in FEATURES, "info", f"{name!r} is no feature of the protocol")
            self._state(f"feature {name!r}", state)
        for dtype, state in info.dtypes.items():
            self.require(dtype in ALL, "info", f"{dtype!r} is no dtype")
            self._state(f"dtype {dtype!r}", state)
        for key, state in info.ops.items():
            name, dtype = key if isinstance(key, tuple) else (key, ALL[0])
            known = (name in TABLE or name in table()) and type(dtype) is DType
            self.require(known, "info", f"{key!r} is no op, nor a pair of op and dtype")
            self._state(f"op {key!r}", state)
        for name, limit in info.limits.items():
            self.require(type(limit) is int, "info", f"limit {name!r} is {limit!r}, no int")
        return replace(info, description=f"{info.description}, checked")

    def upload(self, index: int, array: np.ndarray[Any, Any]) -> StrictBuffer:
        """Upload a private copy and overwrite it afterwards: the buffer must be a snapshot."""
        known = self._host(index, array)
        given = array.copy()
        inner = self.inner.upload(index, given)
        if given.nbytes <= DIGEST_LIMIT and given.nbytes:
            flat = given.reshape(-1).view(np.uint8)
            np.invert(flat, out=flat)
        made = self.wrap(index, inner, known)
        if made.digest is not None:
            self.require(made.digest == digest(array), "snapshot", f"of {known}")
        return made

    def adopt(self, index: int, array: np.ndarray[Any, Any]) -> StrictBuffer:
        """Share host memory, whose contents may then change from outside."""
        known = self._host(index, array)
        inner = self.featured(index, "host_views", lambda: self.inner.adopt(index, array))
        made = self.wrap(index, inner, known)
        made.shared = True
        exported = made.exported
        self.require(exported, "adopted", "exported is False while the host can see the memory")
        return made

    def download(self, index: int, buffer: Any, spec: Spec) -> np.ndarray[Any, Any]:
        """Return the checked contents."""
        inner = self.open(index, buffer, spec)
        array = self.inner.download(index, inner, spec)
        self.require(isinstance(array, np.ndarray), "download", f"it is a {type(array).__name__}")
        same = array.shape == spec.shape and array.dtype == spec.dtype.numpy
        self.require(same, "download", f"{array.dtype}{list(array.shape)} for {spec}")
        self.require(array.flags.c_contiguous, "download", "the array is not contiguous")
        if self.views(index):
            frozen = not array.flags.writeable
            self.require(frozen, "download", "host_views is full and the view is writable")
            self.require(
                buffer.exported or not spec.nbytes,
                "exported",
                "exported is False while the view lives",
            )
        return array

    def copy(self, index: int, buffer: Any, spec: Spec, target: int) -> StrictBuffer:
        """Copy to another device of the backend; the copy must be a buffer of its own."""
        self._enter(target)
        inner = self.open(index, buffer, spec)
        made = self.wrap(target, self.inner.copy(index, inner, spec, target), buffer.spec)
        same = made.digest == buffer.digest or buffer.shared
        self.require(same, "copy", f"the copy of {spec} has other contents")
        return made

    def claim(self, index: int, graph: Graph) -> Claim:
        """Return the checked claim for a verified graph."""
        self._enter(index)
        verify(graph)
        claim = self.inner.claim(index, graph)
        for fault in claim_faults(graph, claim, self.inner.info(index)):
            self.require(False, "claim", fault)
        return claim

    def compile(self, index: int, graph: Graph) -> Executable:
        """Return an executable that checks each call."""
        claim = self.claim(index, graph)
        whole = sum(map(len, claim.parts)) == len(graph.nodes) and len(claim.parts) < 2
        self.require(whole, "whole", f"of {len(graph.nodes)} nodes the parts are {claim.parts}")
        return StrictExecutable(self, index, graph, self.inner.compile(index, graph))

    def compile_within(
        self, index: int, graph: Graph, limit: int, in_place: Mapping[int, int]
    ) -> Executable:
        """Return an executable with little memory that checks each call."""
        self.claim(index, graph)
        made = self.inner.compile_within(index, graph, limit, in_place)
        return StrictExecutable(self, index, graph, made)

    def verify(self, index: int, buffers: Sequence[Any]) -> None:
        """Raise the error that a buffer's contents depend on."""
        self.inner.verify(index, [self.open(index, b, b.spec) for b in buffers])

    def synchronize(self, index: int) -> None:
        """Wait, then check the memory figures."""
        self._enter(index)
        self.inner.synchronize(index)
        self.memory(index)

    def profiling(self, index: int, listener: Listener) -> AbstractContextManager[None]:
        """Pass the listener on."""
        self._enter(index)
        return self.inner.profiling(index, listener)

    def memory(self, index: int) -> MemoryFigures:
        """Return the checked memory figures."""
        self._enter(index)
        figures = self.inner.memory(index)
        described = f"{figures}"
        kinds = type(figures.in_use) is int and type(figures.peak) is int
        self.require(kinds, "memory", f"{described} are not whole numbers")
        self.require(0 <= figures.in_use <= figures.peak, "memory", described)
        held = sum(b.nbytes for b in list(self.live.values()) if b.index == index and not b.shared)
        self.require(figures.in_use >= held, "memory", f"{described}, but buffers hold {held}")
        return figures

    def memory_owner(self, index: int) -> tuple[Any, int]:
        """Return the inner backend's."""
        self._enter(index)
        return self.inner.memory_owner(index)

    def set_memory_limit(self, index: int, limit: int | None) -> None:
        """Set the limit and read it back."""
        self._enter(index)
        self.featured(index, "memory_limit", lambda: self.inner.set_memory_limit(index, limit))
        read = self.inner.memory(index).limit
        self.require(read == limit, "memory", f"the limit was set to {limit} and reads {read}")

    def dlpack(self, index: int, buffer: Any, spec: Spec, **options: Any) -> Any:
        """Export the buffer, whose contents may then change from outside."""
        inner = self.open(index, buffer, spec)
        buffer.shared = True
        return self.featured(
            index, "dlpack", lambda: self.inner.dlpack(index, inner, spec, **options)
        )

    def from_dlpack(self, index: int, array: Any, copy: bool) -> tuple[StrictBuffer, Spec]:
        """Import an array of another library, whose contents may change from outside."""
        self._enter(index)
        inner, found = self.featured(
            index, "dlpack", lambda: self.inner.from_dlpack(index, array, copy)
        )
        made = self.wrap(index, inner, found)
        made.shared = not copy
        return made, found

    def cuda_array_interface(self, index: int, buffer: Any, spec: Spec) -> dict[str, Any] | None:
        """Return the inner backend's answer; the contents may then change from outside."""
        found = self.inner.cuda_array_interface(index, self.open(index, buffer, spec), spec)
        buffer.shared = buffer.shared or found is not None
        return found

    def dlpack_device(self, index: int) -> tuple[int, int]:
        """Return the DLPack device."""
        self._enter(index)
        return self.inner.dlpack_device(index)

    def communicator(self, indices: Sequence[int]) -> StrictCommunicator:
        """Return the inner backend's communicator, behind checks of its buffers."""
        for index in indices:
            self._enter(index)
        first = indices[0]
        inner = self.featured(first, "collectives", lambda: self.inner.communicator(indices))
        return StrictCommunicator(self, indices, inner)

    def serialize(self, index: int, executable: Any) -> bytes:
        """Return the graph's file form and the inner executable's bytes."""
        from calor.graph.file import save

        self._enter(index)
        inner = self.featured(
            index, "serialize", lambda: self.inner.serialize(index, executable.inner)
        )
        self.require(type(inner) is bytes, "serialize", f"it is a {type(inner).__name__}")
        graph = save(executable.graph)
        return len(graph).to_bytes(8, "little") + graph + inner

    def deserialize(self, index: int, data: bytes) -> Executable:
        """Load the bytes of :meth:`serialize`."""
        from calor.graph.file import load

        self._enter(index)
        end = 8 + int.from_bytes(data[:8], "little")
        graph = load(data[8:end])
        inner = self.featured(index, "serialize", lambda: self.inner.deserialize(index, data[end:]))
        return StrictExecutable(self, index, graph, inner)

    def close(self) -> None:
        """Close the proxy; the inner backend stays open for others."""
        self.closed = True

    def wrap(self, index: int, inner: Buffer, known: Spec) -> StrictBuffer:
        """Return a new inner buffer as a checked buffer."""
        nbytes = inner.nbytes
        self.require(nbytes == known.nbytes, "size", f"{nbytes} bytes hold {known}")
        before = self.live.get(id(inner))
        self.require(before is None, "fresh", f"a live buffer of {known} was returned again")
        made = StrictBuffer(self, index, inner, known)
        self.live[id(inner)] = made
        self.stamp(made)
        return made

    def stamp(self, buffer: StrictBuffer) -> None:
        """Record a small buffer's contents, to detect changes."""
        if buffer.nbytes <= DIGEST_LIMIT:
            buffer.digest = digest(self.inner.download(buffer.index, buffer.inner, buffer.spec))

    def open(self, index: int, buffer: Any, known: Spec) -> Buffer:
        """Return the inner buffer of a checked buffer, after checks."""
        self._enter(index)
        mine = type(buffer) is StrictBuffer and buffer.backend is self
        self.require(mine, "foreign", f"it is a {type(buffer).__name__} of another backend")
        self.require(buffer.index == index, "foreign", f"it is of device {buffer.index}")
        made = buffer.spec
        same = made.shape == known.shape and made.dtype is known.dtype
        self.require(same, "spec", f"made as {made}, used as {known}")
        if buffer.digest is not None and not buffer.shared:
            now = digest(self.inner.download(index, buffer.inner, made))
            self.require(now == buffer.digest, "contents", f"of {made}")
        inner: Buffer = buffer.inner
        return inner

    def views(self, index: int) -> bool:
        """Whether downloads are views of the buffers' memory."""
        return self.inner.info(index).feature("host_views").level == "full"

    def featured(self, index: int, feature: str, call: Callable[[], T]) -> T:
        """Call a method that needs a feature; a declared feature must not be refused."""
        self._enter(index)
        state = self.inner.info(index).feature(feature)
        try:
            return call()
        except UnsupportedError as error:
            self.require(state.level != "full", "feature", f"{feature} is full, yet: {error}")
            raise

    def require(self, holds: bool, rule: str, detail: str) -> None:
        """Raise ProtocolError naming the rule unless it holds."""
        require(holds, self.name, rule, detail)

    def single_threaded(self) -> bool:
        """Whether only the last call can have changed the memory figures."""
        return threading.active_count() == 1

    def _enter(self, index: int) -> None:
        self.require(not self.closed, "closed", "close() was called")
        within = type(index) is int and 0 <= index < self.inner.enumerate()
        self.require(within, "index", f"there is no device {index!r}")

    def _state(self, what: str, state: Any) -> None:
        self.require(isinstance(state, State), "info", f"the state of {what} is {state!r}")
        explained = bool(state.reason) or state.level not in ("partial", "impossible")
        self.require(explained, "info", f"{what} is {state.level} without a reason")

    def _host(self, index: int, array: Any) -> Spec:
        self._enter(index)
        self.require(isinstance(array, np.ndarray), "host", f"it is a {type(array).__name__}")
        self.require(array.flags.c_contiguous, "host", "it is not contiguous")
        try:
            return spec(array.shape, as_dtype(array.dtype))
        except DTypeError as error:
            self.require(False, "host", str(error))
            raise CalorError from error
