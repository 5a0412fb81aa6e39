"""A router: several devices as one, each operation on the member where it costs least.

Requirements: what one member can do, the router can. The user chose the members and their order, so
running elsewhere is no silent fallback: it is counted, explained, and refused under `strict`.
Values stay on the member that made them until another one reads them.
"""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final

import numpy as np

from calor.backends.device import Device, device_of
from calor.backends.events import Listener
from calor.backends.protocol import Backend, Claim, Executable, Info, MemoryFigures
from calor.compiling.partitioned import move
from calor.dtypes import as_dtype
from calor.errors import DeviceError, UnsupportedError
from calor.graph.file import load, save
from calor.graph.graph import Graph
from calor.plugins.discovery import get_device
from calor.specs import Spec
from calor_router.buffer import RoutedBuffer
from calor_router.capabilities import united
from calor_router.executable import RoutedExecutable
from calor_router.placement import placed, refusals
from calor_router.speeds import measure

SCHEME: Final = "router:"
_opened: dict[tuple[Device, ...], RouterBackend] = {}
_lock = threading.Lock()

Array = np.ndarray[Any, Any]


def open_router(text: str) -> Device:
    """Return the device of ``router:NAME,NAME``.

    Raises
    ------
    DeviceError
        If a name is missing or occurs twice, or is that of a group or of a router.
    """
    names = [name.strip() for name in text.removeprefix(SCHEME).split(",")]
    if not all(names):
        raise DeviceError(f'"{text}" misses the name of a device; write "router:cuda,cpu"')
    for name in names:
        if name.startswith((SCHEME, "group:")):
            raise DeviceError(
                f'"{text}" has {name.partition(":")[0]}s among its members; name single devices, '
                f'as in "router:cuda,cpu"'
            )
    members = tuple(get_device(name) for name in names)
    twice = [m.name for m in members if members.count(m) > 1]
    if twice:
        raise DeviceError(f'"{text}" names {twice[0]} twice; a device is a member once')
    with _lock:
        backend = _opened.get(members)
        if backend is None:
            backend = RouterBackend(members)
            # Measured now, so that no program is charged for what the measuring takes.
            measure(members)
            _opened[members] = backend
    return backend.device


class RouterBackend(Backend):
    """A backend with one device, whose work its members share.

    Parameters
    ----------
    members : sequence of Device
        The members, the preferred one first.
    """

    def __init__(self, members: Sequence[Device]) -> None:
        self.members = tuple(members)
        self.name = SCHEME + ",".join(member.name for member in self.members)
        # What may have copies beside its own place, which are dropped where memory runs out.
        self._copied: weakref.WeakSet[RoutedBuffer] = weakref.WeakSet()
        self._info: Info | None = None
        # The highest sum of the members' memory so far, and their own peaks at the last look.
        self._peak = 0
        self._peaks = [member.memory.peak for member in self.members]

    @property
    def device(self) -> Device:
        """The router as core sees it."""
        return device_of(self, 0)

    def device_name(self, index: int) -> str:
        """Return the name of the router, which `calor.device` takes."""
        return self.name

    # Description.
    def opened(self, index: int) -> bool:
        """Tell whether every member was opened; the router's description needs all of them."""
        return all(m.backend.opened(m.index) for m in self.members)

    def enumerate(self) -> int:
        """Return 1, the router itself."""
        return 1

    def info(self, index: int) -> Info:
        """Return the capabilities that one member has at least."""
        if self._info is None:
            self._info = united(self.name, self.members)
        return self._info

    # Memory.
    def upload(self, index: int, array: Array) -> RoutedBuffer:
        """Copy a host array to the first member that stores its dtype."""
        dtype = as_dtype(array.dtype)
        able = [n for n, m in enumerate(self.members) if m.info.dtypes.get(dtype)]
        number = able[0] if able else 0
        member = self.members[number]
        return RoutedBuffer(number, member.backend.upload(member.index, array))

    def download(self, index: int, buffer: Any, spec: Spec) -> Array:
        """Return a copy of the value's contents."""
        member = self.members[buffer.home]
        array = member.backend.download(member.index, buffer.places[buffer.home], spec)
        return np.array(array, order="C") if member.info.feature("host_views") else array

    def copy(self, index: int, buffer: Any, spec: Spec, target: int) -> RoutedBuffer:
        """Copy the value on the member that has it."""
        member = self.members[buffer.home]
        inner = buffer.places[buffer.home]
        return RoutedBuffer(
            buffer.home, member.backend.copy(member.index, inner, spec, member.index)
        )

    def on(self, buffer: RoutedBuffer, number: int, spec: Spec) -> Any:
        """Return the buffer of a value on a member; it is copied there if it lies elsewhere.

        Parameters
        ----------
        buffer : RoutedBuffer
            The value.
        number : int
            The member.
        spec : Spec
            The value's shape and dtype.

        Returns
        -------
        Buffer
            The member's buffer.
        """
        found = buffer.places.get(number)
        if found is not None:
            return found
        home = buffer.home
        inner = buffer.places[home]
        found = move(inner, self.members[home], self.members[number], spec)
        device = self.device
        device.transfers += 1
        device.transferred_bytes += spec.nbytes
        # What others can write to may be another value at the next look.
        if not inner.exported:
            buffer.places[number] = found
            self._copied.add(buffer)
        return found

    def drop_copies(self) -> bool:
        """Forget all copies beside the values' own places, and tell whether there were any."""
        found = [b for b in list(self._copied) if len(b.places) > 1]
        self._copied.clear()
        for buffer in found:
            buffer.without_copies()
        return bool(found)

    def memory(self, index: int) -> MemoryFigures:
        """Return the members' figures as one; the peak is at most this much.

        The members reached their peaks at different times. Those that rose since the last look are
        taken with what the others hold.
        """
        figures = [member.memory for member in self.members]
        held = zip(figures, self._peaks, strict=True)
        most = sum(f.peak if f.peak > before else f.in_use for f, before in held)
        self._peaks = [f.peak for f in figures]
        in_use = sum(f.in_use for f in figures)
        self._peak = max(self._peak, most, in_use)
        limits = [f.limit for f in figures if f.limit is not None]
        limit = sum(limits) if len(limits) == len(figures) else None
        return MemoryFigures(in_use, self._peak, limit)

    # Graphs.
    def claim(self, index: int, graph: Graph) -> Claim:
        """Claim each node that a member claims; a reason names what every member says."""
        reasons = {**self.info(0).objections(graph), **refusals(self.members, graph)}
        taken = tuple(i for i in range(len(graph.nodes)) if i not in reasons)
        return Claim((taken,) if taken else (), reasons)

    def compile(self, index: int, graph: Graph) -> Executable:
        """Cut the graph among the members by what its nodes and transfers cost, and compile it."""
        found, chosen, reasons = placed(self.members, graph)
        return RoutedExecutable(self, found, chosen, reasons)

    def serialize(self, index: int, executable: Any) -> bytes:
        """Return the graph, the member of each node, and the reasons."""
        told = {
            "members": [m.name for m in self.members],
            "chosen": executable.chosen,
            "reasons": {str(i): why for i, why in executable.reasons.items()},
        }
        header = json.dumps(told).encode()
        return len(header).to_bytes(8, "little") + header + save(executable.graph)

    def deserialize(self, index: int, data: bytes) -> Executable:
        """Compile the graph of `serialize` for the members that it was cut for.

        Raises
        ------
        DeviceError
            If it was stored by a router of other members.
        """
        end = 8 + int.from_bytes(data[:8], "little")
        told = json.loads(data[8:end])
        names = [m.name for m in self.members]
        if told["members"] != names:
            raise DeviceError(
                f"the program was stored for a router of {', '.join(told['members'])}, and this "
                f"one has {', '.join(names)}; compile it again"
            )
        reasons = {int(i): why for i, why in told["reasons"].items()}
        return RoutedExecutable(self, load(data[end:]), told["chosen"], reasons)

    def verify(self, index: int, buffers: Sequence[Any]) -> None:
        """Raise the first error on which a value depends."""
        for number, member in enumerate(self.members):
            inner = [b.places[number] for b in buffers if number in b.places]
            if inner:
                member.backend.verify(member.index, inner)

    def synchronize(self, index: int) -> None:
        """Wait for every member; raise the first error."""
        failed: Exception | None = None
        for member in self.members:
            try:
                member.backend.synchronize(member.index)
            except DeviceError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def profiling(self, index: int, listener: Listener) -> AbstractContextManager[None]:
        """Return a context in which the members that can tell times report their work."""
        return self._profiling(listener)

    @contextmanager
    def _profiling(self, listener: Listener) -> Iterator[None]:
        with ExitStack() as stack:
            refused: list[UnsupportedError] = []
            for member in self.members:
                try:
                    stack.enter_context(member.backend.profiling(member.index, listener))
                except UnsupportedError as error:
                    refused.append(error)
            if len(refused) == len(self.members):
                raise refused[0]
            yield

    def close(self) -> None:
        """Leave the members open: others use them too."""
