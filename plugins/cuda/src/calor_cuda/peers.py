"""GPUs that reach each other's memory, and copies between them.

Requirements: memory of the stream-ordered allocator is open to another GPU only when its pool says
so, which NCCL relies on as well: within one process it reads and writes the buffers of its peers
themselves; a copy is in the order of both streams, and no host waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calor_kernel.runtime.cupy_driver.device import Stream

from .bindings import failure, typed

if TYPE_CHECKING:
    from .device import CudaMemory


def opened(pool: Any, owner: int, other: int, runtime: Any) -> bool:
    """Open a GPU's pool to another one; False where the machine does not connect them."""
    with typed(f"asking whether GPU {other} reaches GPU {owner}"):
        if not runtime.deviceCanAccessPeer(other, owner):
            return False
    from cuda.bindings import driver

    said = driver.CUmemAccessDesc()
    said.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    said.location.id = other
    said.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    (code, *_) = driver.cuMemPoolSetAccess(driver.CUmemoryPool(pool), [said], 1)
    if int(code):
        raise failure(int(code), f"opening the memory of GPU {owner} to GPU {other}")
    return True


class Crossing:
    """The event that orders the copies from one stream to another."""

    def __init__(self, sender: Stream, receiver: Stream) -> None:
        self.sender = sender
        self.receiver = receiver
        runtime = self.runtime = receiver.runtime
        with typed("making events"):
            sender.use()
            self.sent = runtime.eventCreateWithFlags(runtime.eventDisableTiming)
            receiver.use()
            self.received = runtime.eventCreateWithFlags(runtime.eventDisableTiming)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Queue a copy after what both streams have, and before what both get from now on."""
        runtime, sender, receiver = self.runtime, self.sender, self.receiver
        with typed(f"copying {nbytes} bytes from GPU {sender.number} to GPU {receiver.number}"):
            sender.use()
            runtime.eventRecord(self.sent, sender.stream)
            receiver.use()
            runtime.streamWaitEvent(receiver.stream, self.sent)
            numbers = receiver.number, sender.number
            runtime.memcpyPeerAsync(target, numbers[0], source, numbers[1], nbytes, receiver.stream)
            runtime.eventRecord(self.received, receiver.stream)
            # Memory that the sender frees from now on may be used again when the copy is done.
            sender.use()
            runtime.streamWaitEvent(sender.stream, self.received)

    def close(self) -> None:
        """Give the events back; the driver keeps what queued copies still need of them."""
        with typed("freeing events"):
            self.runtime.eventDestroy(self.sent)
            self.runtime.eventDestroy(self.received)


class Peers:
    """What one GPU's memory knows of the others: which are open to it, and the way from each."""

    def __init__(self, memory: CudaMemory) -> None:
        self.memory = memory
        self.reach: dict[int, bool] = {}
        self.crossings: dict[int, Crossing] = {}

    def open(self, other: CudaMemory) -> bool:
        """Let two GPUs read and write each other's memory; False where they are not connected."""
        number = other.on.number
        if number not in self.reach:
            runtime, mine = self.memory.on.runtime, self.memory.on.number
            both = opened(self.memory.pool, mine, number, runtime) and opened(
                other.pool, number, mine, runtime
            )
            self.reach[number] = other.peers.reach[mine] = both
        return self.reach[number]

    def receive(self, target: int, sender: CudaMemory, source: int, nbytes: int) -> None:
        """Queue a copy; the driver goes over the host where the GPUs are not connected."""
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
        """Give back what copies from other GPUs took."""
        while self.crossings:
            self.crossings.popitem()[1].close()
