"""The backend of a server: its devices as core sees them.

Requirements: what the server's device can do, this one can, except for what needs the memory at
hand; nothing waits but reads, compiling, and questions; what was sent once is not sent again.
"""

from __future__ import annotations

import atexit
import os
import re
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import httpx
import numpy as np

from calor.backends.device import Device, device_of
from calor.backends.events import Listener
from calor.backends.protocol import Backend, Claim, Executable, Info, MemoryFigures
from calor.dtypes import as_dtype
from calor.errors import DeviceError, OutOfMemoryError, ProtocolError
from calor.graph.file import load, save
from calor.graph.graph import Graph
from calor.made_once import MadeOnce
from calor.plugins.discovery import registry
from calor.random.generator import leave
from calor.specs import Spec
from calor.units import bytes_text
from calor_http.client.buffer import RemoteBuffer
from calor_http.client.executable import RemoteExecutable
from calor_http.client.link import Upload
from calor_http.client.profiles import Profiles
from calor_http.client.requests import Command, Contents, Requests
from calor_http.client.staging import Copy, Staging
from calor_http.client.tokens import token_for
from calor_http.connection import Connection
from calor_http.described import decode_claim, decode_info, digest_of
from calor_http.frames import CHUNK

# A server that does not answer keeps nobody from opening another one.
_opened: Final[MadeOnce[str, RemoteBackend]] = MadeOnce()
_SMALL: Final = CHUNK // 4
Array = np.ndarray[Any, Any]


def open_remote(text: str) -> Device:
    """Return the device of ``https://HOST:PORT/NAME``; without a name, the server's first.

    A server whose session was closed gets a new one.

    Raises
    ------
    DeviceError
        If the address is none, the server does not answer, or it has no such device.
    """
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise DeviceError(f'"{text}" is no address: {error}') from None
    if not url.host or url.userinfo or url.query or url.fragment:
        raise DeviceError(
            'write a server as "https://host:port/cuda:0"; its token is read from the environment '
            "or a file, and is no part of the address"
        )
    base = f"{url.scheme}://{url.netloc.decode()}"
    known = _opened.get(base)
    if known is not None and known.requests.closed:
        _opened.forget(base, known)
    backend = _opened.of(base, lambda: RemoteBackend(base))
    return device_of(backend, backend.find(url.path.strip("/")))


def end_session(base: str) -> None:
    """End this process's session with a server, if it has one."""
    backend = _opened.get(base)
    if backend is not None:
        backend.end()


class RemoteBackend(Backend):
    """The devices of one server.

    Parameters
    ----------
    base : str
        The server's address, such as ``https://gpu.example:8470``.

    Attributes
    ----------
    keeps : bool
        Whether uploads are kept here, to survive a restart of the server.
    """

    def __init__(self, base: str) -> None:
        self.name = base
        self.keeps = False
        self._process = os.getpid()
        self._names: list[str] = []
        self._infos: list[Info] = []
        # The servers from which this one fetches values.
        self._peers: frozenset[str] = frozenset()
        self._limits: dict[int, int | None] = {}
        # The bytes of live buffers, as the client counts them.
        self._held: Counter[int] = Counter()
        self._kept: weakref.WeakSet[RemoteBuffer] = weakref.WeakSet()
        self._staging = Staging()
        self._connection = Connection(base, token_for(httpx.URL(base).netloc.decode()))
        self.requests = Requests(self._connection, self._begin, self._staging.clear)
        self.profiles = Profiles(self.requests)
        atexit.register(self.close)

    def _begin(self, found: Any, era: int) -> list[Command]:
        """Take a new session's description; return the uploads of what was kept."""
        self._names = [str(name) for name, _ in found["devices"]]
        self._infos = [decode_info(f"{self.name}/{name}", info) for name, info in found["devices"]]
        self._peers = frozenset(found["peers"])
        kept = [(b, Copy(b.kept)) for b in list(self._kept) if b.kept is not None]
        for buffer, _ in kept:
            buffer.era = era
        return [self._command(*known) for known in kept]

    def find(self, name: str) -> int:
        """Return which of the server's devices has a name; the first one for no name."""
        for index, known in enumerate(self._names):
            if not name or _without_zeros(name) == _without_zeros(known):
                return index
        raise DeviceError(f"{self.name} has no device {name!r}; it has {', '.join(self._names)}")

    # Description.
    def device_name(self, index: int) -> str:
        """Return the address of a device."""
        return f"{self.name}/{self._names[index]}"

    def enumerate(self) -> int:
        """Return how many devices the server has."""
        return len(self._names)

    def info(self, index: int) -> Info:
        """Return what the server's device can do, seen from here."""
        return self._infos[index]

    # Memory.
    def new(self, index: int, nbytes: int, era: int) -> RemoteBuffer:
        """Return a buffer with a number of its own."""
        self._held[index] += nbytes
        return RemoteBuffer(next(self.requests.numbers), era, index, nbytes, self._dropped)

    def _dropped(self, buffer: RemoteBuffer) -> None:
        self._held[buffer.index] -= buffer.nbytes
        self.requests.dropped(buffer)

    def reserve(self, index: int, nbytes: int, op: str | None = None) -> None:
        """Raise OutOfMemoryError where bytes of an op would pass the limit that was set here."""
        limit = self._limits.get(index)
        if limit is not None and self._held[index] + nbytes > limit:
            raise OutOfMemoryError(
                f"{self.device_name(index)} needs {bytes_text(nbytes)}, but "
                f"{bytes_text(self._held[index])} of its limit of {bytes_text(limit)} are in use; "
                f"free tensors, or raise the limit with calor.set_memory_limit",
                op=op,
            )

    def upload(self, index: int, array: Array) -> RemoteBuffer:
        """Send a host array."""
        self.reserve(index, array.nbytes)
        made = self.new(index, array.nbytes, self.requests.era)
        copy = self._staging.begun(array)
        self.requests.queue(self._command(made, copy), made.era)
        if self.keeps:
            made.kept = copy.array
            self._kept.add(made)
        # The program may change its array from now on.
        copy.wait()
        return made

    def _command(self, buffer: RemoteBuffer, copy: Copy) -> Command:
        """Return the command that uploads contents, of which some may still be copied."""
        content = copy.array
        data = memoryview(content.reshape(-1).view(np.uint8).data)
        head = [buffer.number, buffer.index, as_dtype(content.dtype).name, list(content.shape)]
        if len(data) <= _SMALL:
            copy.wait()
            return Command(["up", *head, bytes(data)], len(data))
        blob = next(self.requests.numbers)
        return Command(["take", *head, blob], len(data), upload=Upload(blob, data, copy.wait))

    def download(self, index: int, buffer: Any, spec: Spec) -> Array:
        """Fetch a copy of a value; wait for it."""
        requests = self.requests
        blob = next(requests.numbers)
        offers = True
        try:
            found = requests.ask(["read", buffer.at(requests.era), index, blob], buffer.era)
            offers = type(found) is int
            found = requests.fetch(blob, found) if offers else bytearray(found)
        finally:
            # Also where nobody waits any more: the server may be about to answer.
            if offers:
                requests.dropped(Contents(blob, buffer.era), "forget")
        if len(found) != spec.nbytes:
            raise ProtocolError(f"{len(found)} bytes came for {spec}", rule="download")
        return np.frombuffer(found, spec.dtype.numpy).reshape(spec.shape)

    def copy(self, index: int, buffer: Any, spec: Spec, target: int) -> RemoteBuffer:
        """Copy a value on the server."""
        self.reserve(target, spec.nbytes)
        era = self.requests.era
        number = buffer.at(era)
        made = self.new(target, spec.nbytes, era)
        self.requests.put(["copy", number, index, target, made.number], era)
        return made

    def receive(self, index: int, source: Device, buffer: Any, spec: Spec) -> RemoteBuffer | None:
        """Let the server fetch a value from another one, if it knows that one as its peer."""
        other = source.backend
        if not isinstance(other, RemoteBackend) or other.name not in self._peers:
            return None
        self.reserve(index, spec.nbytes)
        number = buffer.at(other.requests.era)
        secret = other.requests.ask(["offer", number, source.index], buffer.era)
        era = self.requests.era
        made = self.new(index, spec.nbytes, era)
        told = [spec.dtype.name, list(spec.shape), other.name, secret]
        self.requests.put(["fetch", made.number, index, *told], era)
        return made

    def memory(self, index: int) -> MemoryFigures:
        """Return what this client holds on the device, as the server counts it."""
        in_use, peak = self.requests.ask(["memory", index], self.requests.era)
        return MemoryFigures(in_use, peak, self._limits.get(index))

    def set_memory_limit(self, index: int, limit: int | None) -> None:
        """Set the most bytes that this client holds on the device."""
        self._limits[index] = limit

    def verify(self, index: int, buffers: Sequence[Any]) -> None:
        """Raise the first error on which a value depends."""
        era = self.requests.era
        self.requests.ask(["verify", index, [buffer.at(era) for buffer in buffers]], era)

    def synchronize(self, index: int) -> None:
        """Wait for all work of this client; raise an error that nobody has seen."""
        if self.requests.closed:
            return
        self.requests.ask(["sync", index], self.requests.era)

    def profiling(self, index: int, listener: Listener) -> AbstractContextManager[None]:
        """Report what the server's device does for this client; each run is waited for."""
        return self.profiles.profiling(index, listener)

    # Graphs.
    def claim(self, index: int, graph: Graph) -> Claim:
        """Ask the server, which gets the graph if it does not know it."""
        reasons = self.info(index).objections(graph)
        if reasons:
            return self._claim_rest(index, graph, reasons)
        return decode_claim(self._about(graph, self.requests.era, "claim", index))

    def _claim_rest(self, index: int, graph: Graph, reasons: Mapping[int, str]) -> Claim:
        """Claim a graph without the nodes that the description rules out."""
        from calor.graph.graph import part

        kept = [i for i in range(len(graph.nodes)) if i not in reasons]
        if not kept:
            return Claim((), reasons)
        left = {v for i in reasons for v in graph.nodes[i].outputs}
        nodes = [graph.nodes[i] for i in kept]
        made = [v for node in nodes for v in node.outputs]
        rest = part(graph, [*graph.inputs, *sorted(left)], nodes, made)
        found = self.claim(index, rest)
        parts = tuple(tuple(kept[i] for i in group) for group in found.parts)
        return Claim(parts, {**reasons, **{kept[i]: why for i, why in found.reasons.items()}})

    def _about(self, graph: Graph, era: int, command: str, *operands: Any) -> Any:
        """Return the answer to a command about a graph, whose digest stands after its operands."""
        data = save(graph)
        digest = digest_of(data)
        before = operands if command != "within" else operands[:2]
        message = [command, *before, digest, *operands[len(before) :]]
        found = self.requests.ask(message, era)
        if found == "missing":
            blob = next(self.requests.numbers)
            small = len(data) <= _SMALL
            sent = ["graph", digest, data if small else blob]
            apart = None if small else Upload(blob, memoryview(data))
            self.requests.queue(Command(sent, len(data), upload=apart), era)
            found = self.requests.ask(message, era)
        return found

    def compiled(self, index: int, graph: Graph, within: Any) -> tuple[int, int, int]:
        """Let the server compile a graph; return the program's number, session and bytes."""
        era, number = self.requests.era, next(self.requests.numbers)
        if within is None:
            needed = self._about(graph, era, "compile", number, index)
        else:
            limit, places = within
            needed = self._about(graph, era, "within", number, index, limit, dict(places))
        return number, era, int(needed)

    def compile(self, index: int, graph: Graph) -> Executable:
        """Let the server compile a graph."""
        return RemoteExecutable(self, index, graph)

    def compile_within(
        self, index: int, graph: Graph, limit: int, in_place: Mapping[int, int]
    ) -> Executable:
        """Let the server compile a graph that allocates little."""
        return RemoteExecutable(self, index, graph, (limit, in_place))

    def serialize(self, index: int, executable: Any) -> bytes:
        """Return the graph's file form, of which the server may have the program."""
        return save(executable.graph)

    def deserialize(self, index: int, data: bytes) -> Executable:
        """Let the server compile a stored graph."""
        return self.compile(index, load(data))

    def end(self) -> None:
        """End the session in a program that goes on: its random numbers go on, too."""
        if not self.requests.closed:
            leave(self)
        registry.forget(self)
        self.close()

    def close(self) -> None:
        """End the session; the server frees what this client has."""
        atexit.unregister(self.close)
        # The session of a process is not that of a child which was forked from it.
        if os.getpid() != self._process or self.requests.closed:
            return
        self.requests.close()


def _without_zeros(name: str) -> str:
    """Return a name in which a first device of its kind has no number, also within a router."""
    return re.sub(r":0(?=,|$)", "", name)
