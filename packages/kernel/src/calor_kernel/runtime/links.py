"""Collectives of devices that reach each other: what a device plugin makes, and buffers around it.

Requirements: a device says by its feature "links" that it has means of its own; memory is taken
before anything is queued, so that running out of it leaves every device as it was; a result depends
on what any member's input depends on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from calor.backends.communication import Collective, Communicator, Exchange
from calor.errors import DeviceError
from calor_kernel.planning.outcomes import inherit
from calor_kernel.runtime.buffers import KernelBuffer
from calor_kernel.runtime.peer_sums import PeerSums

if TYPE_CHECKING:
    from calor_kernel.runtime.engine import Engine

Handles = Sequence[Sequence[Any]]


class Meeting(ABC):
    """How the queues of some devices wait for each other, where kernels reach the memory of all.

    A handle of one device's own memory is then one in the kernels of each other. ``lock`` is held
    while what several of them do together is queued.
    """

    lock: AbstractContextManager[Any]

    @abstractmethod
    def gather(self) -> None:
        """Let the first device wait for what all were given."""

    @abstractmethod
    def release(self) -> None:
        """Let all wait for what the first device was given."""


class Links(ABC):
    """The means by which some devices exchange memory, in the order of each device's queue."""

    @abstractmethod
    def takes(self, call: Collective) -> bool:
        """Return whether a collective has its meaning here, for its dtype too."""

    @abstractmethod
    def prepare(self, calls: Sequence[Collective]) -> Callable[[Handles, Handles], None]:
        """Return what queues collectives as one.

        It is called with ``given`` and ``made``: ``given[i][r]`` and ``made[i][r]`` are handles of
        what member r has before and after call i.
        """

    def meeting(self) -> Meeting | None:
        """Return how the devices wait for each other; None where kernels do not reach all."""
        return None

    def close(self) -> None:  # noqa: B027 - most hold nothing that needs closing
        """Free everything; it is not used afterwards."""


class KernelCommunicator(Communicator):
    """Links with the pools of their devices around them."""

    def __init__(self, engines: Sequence[Engine], links: Links) -> None:
        self.engines = tuple(engines)
        self.links = links
        meeting = links.meeting()
        self.sums = None if meeting is None else PeerSums(self.engines, meeting)

    def takes(self, call: Collective) -> bool:
        """Return what the links say."""
        return self.links.takes(call)

    def prepare(self, calls: Sequence[Collective]) -> Exchange:
        """Return what takes memory for all results, and queues."""
        sums, links = self.sums, self.links.prepare(calls)
        small = sums.prepare(calls) if sums is not None and sums.takes(calls) else None
        pools = [engine.pool for engine in self.engines]
        takers = [[pool.taker(call.made.nbytes) for pool in pools] for call in calls]

        def run(inputs: Sequence[Sequence[Any]]) -> list[list[KernelBuffer]]:
            made = [[take() for take in row] for row in takers]
            given = [[buffer.handle for buffer in row] for row in inputs]
            # Memory of other libraries may be closed to kernels of other devices.
            own = all(type(buffer) is KernelBuffer for row in inputs for buffer in row)
            queue = links if small is None or not own else small
            try:
                queue(given, [[buffer.handle for buffer in row] for row in made])
            except DeviceError as error:
                error.op = error.op or calls[0].op
                raise
            for row, results in zip(inputs, made, strict=True):
                for buffer in row:
                    if buffer.outcomes:
                        for result in results:
                            inherit(result, row)
            return made

        return run

    def close(self) -> None:
        """Close the links."""
        self.links.close()
