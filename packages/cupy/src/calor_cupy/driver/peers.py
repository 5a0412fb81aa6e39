"""Peer access between GPUs, and copies between them.

Requirements: memory is open to another GPU only with its owner's consent. NCCL relies on this too:
within one process it accesses its peers' buffers directly. A copy is in the order of both streams,
and the host does not wait for it.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from typing import Final

from calor_cupy.driver.device import StreamMemory
from calor_cupy.driver.stream import Stream
from calor_kernel.device.protocol import Memory

# Held while work of several GPUs is queued, by any thread. Other work queued between the parts of a
# collective could deadlock with it.
QUEUEING: Final = threading.Lock()


class PeerMemory(StreamMemory):
    """Memory accessible to peer GPUs that the machine connects."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.peers = Peers(self)

    @abstractmethod
    def admit(self, other: int) -> None:
        """Open the memory to a connected GPU, given by number."""

    def opened(self, other: int) -> bool:
        """Open the memory to a GPU, given by number; False if they are not connected."""
        number = self.on.number
        with self.on.codes.typed(f"asking whether GPU {other} reaches GPU {number}"):
            if not self.on.runtime.deviceCanAccessPeer(other, number):
                return False
        self.admit(other)
        return True

    def receive(
        self, handle: int, at: int, sender: Memory, source: int, offset: int, nbytes: int
    ) -> bool:
        """Copy from another GPU, in the order of both streams."""
        if not isinstance(sender, PeerMemory):
            return False
        self.peers.receive(handle + at, sender, source + offset, nbytes)
        return True


class Crossing:
    """The events that order copies between two streams."""

    def __init__(self, sender: Stream, receiver: Stream) -> None:
        self.sender = sender
        self.receiver = receiver
        runtime = self.runtime = receiver.runtime
        with receiver.codes.typed("making events"):
            sender.use()
            self.sent = runtime.eventCreateWithFlags(runtime.eventDisableTiming)
            receiver.use()
            self.received = runtime.eventCreateWithFlags(runtime.eventDisableTiming)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Queue a copy after all earlier work of both streams and before all later work."""
        runtime, sender, receiver = self.runtime, self.sender, self.receiver
        numbers = receiver.number, sender.number
        what = f"copying {nbytes} bytes from GPU {sender.number} to GPU {receiver.number}"
        with QUEUEING, receiver.codes.typed(what):
            sender.use()
            runtime.eventRecord(self.sent, sender.stream)
            receiver.use()
            runtime.streamWaitEvent(receiver.stream, self.sent)
            runtime.memcpyPeerAsync(target, numbers[0], source, numbers[1], nbytes, receiver.stream)
            runtime.eventRecord(self.received, receiver.stream)
            # The sender may reuse memory freed from now on after the copy is done.
            sender.use()
            runtime.streamWaitEvent(sender.stream, self.received)

    def close(self) -> None:
        """Free the events; the driver keeps what queued copies still need."""
        with self.receiver.codes.typed("freeing events"):
            self.runtime.eventDestroy(self.sent)
            self.runtime.eventDestroy(self.received)


class Peers:
    """A GPU's peers: their access rights, and the events for copies from each."""

    def __init__(self, memory: PeerMemory) -> None:
        self.memory = memory
        self.reach: dict[int, bool] = {}
        self.crossings: dict[int, Crossing] = {}

    def open(self, other: PeerMemory) -> bool:
        """Let two GPUs access each other's memory; False if they are not connected."""
        number = other.on.number
        if number not in self.reach:
            mine = self.memory.on.number
            both = self.memory.opened(number) and other.opened(mine)
            self.reach[number] = other.peers.reach[mine] = both
        return self.reach[number]

    def receive(self, target: int, sender: PeerMemory, source: int, nbytes: int) -> None:
        """Queue a copy; the driver goes through the host if the GPUs are not connected."""
        self.open(sender)
        number = sender.on.number
        crossing = self.crossings.get(number)
        if crossing is None or crossing.sender is not sender.on:
            # A device that was closed and opened again has another stream.
            if crossing is not None:
                crossing.close()
            crossing = self.crossings[number] = Crossing(sender.on, self.memory.on)
        if nbytes:
            crossing.copy(target, source, nbytes)

    def close(self) -> None:
        """Free the events of copies from other GPUs."""
        while self.crossings:
            self.crossings.popitem()[1].close()
