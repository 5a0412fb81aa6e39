"""Collectives over the links of several devices, on buffers of their pools.

Requirements: memory is allocated before anything is queued, so running out of memory changes
nothing on any device. A result depends on the dependences of every member's input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor.backends.communication import Collective, Communicator, Exchange
from calor.errors import DeviceError
from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.device.links import Links
from calor_kernel.device.outcomes import inherit
from calor_kernel.planning.engine import Engine
from calor_kernel.runtime.peer_sums import PeerSums


class KernelCommunicator(Communicator):
    """Links combined with the pools of their devices."""

    def __init__(self, engines: Sequence[Engine], links: Links) -> None:
        self.engines = tuple(engines)
        self.links = links
        meeting = links.meeting()
        self.sums = None if meeting is None else PeerSums(self.engines, meeting)

    def takes(self, call: Collective) -> bool:
        """Return the links' answer."""
        return self.links.takes(call)

    def prepare(self, calls: Sequence[Collective]) -> Exchange:
        """Return a function that allocates all results and queues the collectives."""
        sums, links = self.sums, self.links.prepare(calls)
        small = sums.prepare(calls) if sums is not None and sums.takes(calls) else None
        pools = [engine.pool for engine in self.engines]
        takers = [[pool.taker(call.made.nbytes) for pool in pools] for call in calls]

        def run(inputs: Sequence[Sequence[Any]]) -> list[list[KernelBuffer]]:
            made = [[take() for take in row] for row in takers]
            given = [[buffer.handle for buffer in row] for row in inputs]
            # Memory of other libraries may be inaccessible to kernels of other devices.
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
