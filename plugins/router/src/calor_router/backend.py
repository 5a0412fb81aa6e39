"""A router: several devices as one, each operation on the member where it costs least.

Requirements: what one member can do, the router can. The user chose the members and their order, so
running elsewhere is no silent fallback: it is counted, explained, and refused under `strict`.
Values stay on the member that made them until another one reads them.
"""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final

import numpy as np

from calor.backends.calls import BoundCall
from calor.backends.device import Device, device_of
from calor.backends.events import Listener
from calor.backends.protocol import Backend, Claim, Executable, Info, MemoryFigures
from calor.compiling.partitioned import move
from calor.dtypes import as_dtype
from calor.errors import ArgumentError, DeviceError, OutOfMemoryError, UnsupportedError
from calor.graph.file import load, save
from calor.graph.graph import Graph
from calor.made_once import MadeOnce
from calor.plugins.discovery import get_device
from calor.specs import Spec
from calor.units import bytes_of
from calor_router.buffer import HOST, HostBuffer, RoutedBuffer, buffer_type
from calor_router.capabilities import united
from calor_router.executable import RoutedExecutable
from calor_router.options import Option, chosen_option
from calor_router.placement import refusals
from calor_router.rooms import Rooms, as_spec
from calor_router.speeds import measure

SCHEME: Final = "router:"
# A member's name, and the most bytes that are in use on it.
_WRITTEN: Final = re.compile(r"([^\[\]]*)(?:\[([^\[\]]*)\])?")
_opened: Final[MadeOnce[tuple[tuple[Device, ...], tuple[int | None, ...]], RouterBackend]] = (
    MadeOnce()
)

Array = np.ndarray[Any, Any]


def open_router(text: str) -> Device:
    """Return the device of ``router:NAME,NAME``; a limit of memory follows a name in brackets.

    Raises
    ------
    DeviceError
        If a name is missing or occurs twice, or is that of a group or of a router, or if a limit
        is no number of bytes.
    """
    written = [_WRITTEN.fullmatch(part.strip()) for part in text.removeprefix(SCHEME).split(",")]
    found = [(one[1].strip(), one[2]) for one in written if one is not None]
    if not all(name for name, _ in found) or len(found) < len(written):
        raise DeviceError(f'"{text}" misses the name of a device; write "router:cuda,cpu"')
    for name, _ in found:
        if name.startswith((SCHEME, "group:")):
            raise DeviceError(
                f'"{text}" has {name.partition(":")[0]}s among its members; name single devices, '
                f'as in "router:cuda,cpu"'
            )
    members = tuple(get_device(name) for name, _ in found)
    twice = [m.name for m in members if members.count(m) > 1]
    if twice:
        raise DeviceError(f'"{text}" names {twice[0]} twice; a device is a member once')
    limits = tuple(_limit(text, size) for _, size in found)

    def opened() -> RouterBackend:
        backend = RouterBackend(members, limits)
        # Measured now, so that no program is charged for what the measuring takes.
        measure(members, limits)
        return backend

    return _opened.of((members, limits), opened).device


def _limit(text: str, size: str | None) -> int | None:
    """Return the limit in brackets after a member's name."""
    if size is None:
        return None
    try:
        return bytes_of(int(size) if size.strip().isdecimal() else size, "a limit")
    except ArgumentError:
        raise DeviceError(
            f'"{text}" has a limit of [{size}]; write the most bytes that a member may use behind '
            f'its name, as in "router:cuda[8GiB],cpu"'
        ) from None


class RouterBackend(Backend):
    """A backend with one device, whose work its members share.

    Parameters
    ----------
    members : sequence of Device
        The members, the preferred one first.
    limits : sequence of int or None, optional
        The most bytes in use on each member; None where only its own limit counts.
    """

    def __init__(self, members: Sequence[Device], limits: Sequence[int | None] = ()) -> None:
        self.members = tuple(members)
        limits = tuple(limits) or (None,) * len(self.members)
        self.name = SCHEME + ",".join(
            member.name if limit is None else f"{member.name}[{limit}]"
            for member, limit in zip(self.members, limits, strict=True)
        )
        self.kind = buffer_type(len(self.members))
        self.rooms = Rooms(self, limits)
        # What may have copies beside its own place, which are dropped where memory runs out.
        self.copied: weakref.WeakSet[RoutedBuffer] = weakref.WeakSet()
        self._info: Info | None = None
        # The highest sum of the members' memory so far, and their own peaks at the last look.
        self._peak = 0
        owners = {m.backend.memory_owner(m.index): m for m in reversed(self.members)}
        # Members whose memory is counted apart: two names may be one device.
        self._counted = [m for m in self.members if m in owners.values()]
        self._peaks = [member.memory.peak for member in self._counted]

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
        """Copy a host array to the first member that stores its dtype.

        Where members have limits, or that one is full, it waits on the host until one reads it.
        """
        if self.rooms.limited:
            return self.kind(HOST, self.rooms.kept(array))
        dtype = as_dtype(array.dtype)
        able = [n for n, m in enumerate(self.members) if m.info.dtypes.get(dtype)]
        number = able[0] if able else 0
        member = self.members[number]
        for _ in range(2):
            try:
                return self.kind(number, member.backend.upload(member.index, array))
            except OutOfMemoryError:
                if not self.drop_copies():
                    break
        # There it waits for a program, which is cut by what there is.
        return self.kind(HOST, self.rooms.kept(array))

    def download(self, index: int, buffer: Any, spec: Spec) -> Array:
        """Return a copy of the value's contents."""
        return self.rooms.on_host(buffer, spec)

    def copy(self, index: int, buffer: Any, spec: Spec, target: int) -> RoutedBuffer:
        """Copy the value where it is."""
        place = buffer.home
        if place == HOST or self.rooms.limits[place] is not None:
            return self.kind(HOST, HostBuffer(self.download(index, buffer, spec), self.rooms.host))
        member = self.members[place]
        inner = member.backend.copy(member.index, buffer.inner, spec, member.index)
        return self.kind(place, inner)

    def on(self, buffer: RoutedBuffer, number: int, spec: Spec, ahead: bool = False) -> Any:
        """Return the buffer of a value on a member; it is copied there if it lies elsewhere.

        Parameters
        ----------
        buffer : RoutedBuffer
            The value.
        number : int
            The member.
        spec : Spec
            The value's shape and dtype.
        ahead : bool, optional
            Whether a copy from the host may be under way on return; see `Backend.loaded`.

        Returns
        -------
        Buffer
            The member's buffer.
        """
        found = buffer.on(number)
        if found is not None:
            return found
        home, inner, target = buffer.home, buffer.inner, self.members[number]
        if home == HOST:
            if ahead:
                found = target.backend.load(target.index, as_spec(inner.for_load(target), spec))
            else:
                found = target.backend.upload(target.index, as_spec(inner.array, spec))
        else:
            found = move(inner, self.members[home], target, spec)
        self.count(spec.nbytes)
        if home == HOST and self.rooms.limits[number] is None:
            # The member has room, and the host need not keep it beside.
            buffer.settle(number, found)
        elif not inner.exported:
            # What others can write to may be another value at the next look.
            buffer.add(number, found)
            self.copied.add(buffer)
            self.rooms.note(buffer, number, spec)
        return found

    def count(self, nbytes: int) -> None:
        """Count a value that was moved."""
        device = self.device
        device.transfers += 1
        device.transferred_bytes += nbytes

    def drop_copies(self) -> bool:
        """Forget all copies beside the values' own places, and tell whether there were any."""
        found = [b for b in list(self.copied) if len(b.places) > 1]
        self.copied.clear()
        for buffer in found:
            buffer.without_copies()
        return bool(found)

    def memory(self, index: int) -> MemoryFigures:
        """Return the members' figures as one; the peak is at most this much.

        The members reached their peaks at different times. Those that rose since the last look are
        taken with what the others hold.
        """
        figures = [member.memory for member in self._counted]
        held = zip(figures, self._peaks, strict=True)
        host = self.rooms.host.in_use
        most = host + sum(f.peak if f.peak > before else f.in_use for f, before in held)
        self._peaks = [f.peak for f in figures]
        in_use = host + sum(f.in_use for f in figures)
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
        _, found, chosen, reasons = chosen_option(self, graph, self._compiled)
        return RoutedExecutable(self, found, chosen, reasons)

    def _compiled(self, option: Option) -> RoutedExecutable:
        return RoutedExecutable(self, option.graph, option.chosen, option.reasons)

    def caller(
        self, index: int, executable: Executable, call: BoundCall
    ) -> Callable[..., Any] | None:
        """Return the member's compiled function, where the graph is whole on a member."""
        return executable.bound(call) if isinstance(executable, RoutedExecutable) else None

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
            found = (b.on(number) for b in buffers)
            inner = [buffer for buffer in found if buffer is not None]
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
