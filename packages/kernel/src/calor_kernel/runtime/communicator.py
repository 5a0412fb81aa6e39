"""Collectives over the links of several devices, on buffers of their pools.

Requirements: memory is allocated before anything is queued, so running out of memory changes
nothing on any device. A result depends on the dependences of every member's input.

A small sum is added by kernels that access the memory of all devices. One host thread queues the
work of all devices, so the cost of a small sum is its queueing, and one launch is cheaper than one
per device. A device waits only for work queued before, and no kernel waits for another, so kernels
need not run concurrently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calor.backends.communication import Collective, Communicator, Exchange
from calor.errors import DeviceError
from calor_kernel.device.buffers import KernelBuffer
from calor_kernel.device.outcomes import inherit
from calor_kernel.device.protocol import Handles, Links, Meeting, Slot, Step
from calor_kernel.library.peer_sum import sum_of_members
from calor_kernel.planning.engine import Engine

# The maximum bytes for one device to add everything, and for each of a few to add a part. The
# second way needs two synchronizations of all devices, too slow for more devices.
ALONE = 1 << 18
TOGETHER = 1 << 20
FEW = 2


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


class PeerSums:
    """Adds for a group; ``meeting``: how its devices synchronize."""

    def __init__(self, engines: Sequence[Engine], meeting: Meeting) -> None:
        self.engines = engines
        self.meeting = meeting

    def takes(self, calls: Sequence[Collective]) -> bool:
        """Return whether the collectives are all sums for which this way is faster."""
        most = max(ALONE, TOGETHER) if len(self.engines) <= FEW else ALONE
        return (
            all(
                call.op == "all_reduce"
                and call.kind == "sum"
                and call.given.dtype.kind in ("float", "int", "uint")
                and self.engines[0].device.info.dtypes >= {call.given.dtype}
                for call in calls
            )
            and 0 < sum(call.given.nbytes for call in calls) <= most
        )

    def prepare(self, calls: Sequence[Collective]) -> Callable[[Handles, Handles], None]:
        """Return a function that queues sums, as :meth:`Links.prepare` does."""
        meeting, members = self.meeting, len(self.engines)
        alone = sum(call.given.nbytes for call in calls) <= ALONE
        adding = range(1) if alone else range(members)
        # The launches of each adding device, per call.
        launches = [[self._launch(call, hub, len(adding)) for hub in adding] for call in calls]

        def run(given: Handles, made: Handles) -> None:
            with meeting.lock:
                meeting.gather()
                if not alone:
                    meeting.release()
                for row, sent, got in zip(launches, given, made, strict=True):
                    for launch in row:
                        launch(*sent, *got)
                if not alone:
                    meeting.gather()
                meeting.release()

        return run

    def _launch(self, call: Collective, hub: int, parts: int) -> Callable[..., None]:
        """Return the launcher of one member's part of a sum."""
        engine, members, spec = self.engines[hub], len(self.engines), call.given
        info = engine.device.info
        units = min(info.max_units, 256)
        build, chunk = sum_of_members(members, spec.dtype, units, info.vector_bytes)
        share = -(-spec.size // (parts * chunk)) * chunk
        first = min(hub * share, spec.size)
        count = min(share, spec.size - first)
        slots = [Slot(slot, first * spec.dtype.itemsize) for slot in range(2 * members)]
        (function,) = engine.kernels.load([build])
        step = Step(function, (-(-count // chunk), 1, 1), (*slots, count))
        queue = engine.device.queue
        recorded = queue.record([step], 2 * members)
        direct = queue.direct(recorded)
        return direct or (lambda *handles: queue.run(recorded, handles))
