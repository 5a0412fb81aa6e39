"""Small sums of devices that reach each other's memory: kernels of some read and write that of all.

Requirements: one host thread queues what all devices do, so that a small sum costs what is queued,
and one launch is less than one for each device; a device waits only for what was queued before, and
no kernel for another one, so that nothing depends on kernels that run at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from calor.backends.communication import Collective
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.library.peer_sum import build_for
from calor_kernel.planning.engine import Engine

if TYPE_CHECKING:
    from calor_kernel.device.links import Handles, Meeting

# Up to how many bytes one device adds all; and up to how many each of a few does a part: with that,
# all wait for all twice, which of more devices takes too long.
ALONE = 1 << 18
TOGETHER = 1 << 20
FEW = 2


class PeerSums:
    """What adds for a group; ``meeting``: how its devices wait for each other."""

    def __init__(self, engines: Sequence[Engine], meeting: Meeting) -> None:
        self.engines = engines
        self.meeting = meeting

    def takes(self, calls: Sequence[Collective]) -> bool:
        """Return whether all of some collectives are sums that are quicker so."""
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
        """Return what queues sums, as :meth:`Links.prepare` does."""
        meeting, members = self.meeting, len(self.engines)
        alone = sum(call.given.nbytes for call in calls) <= ALONE
        adding = range(1) if alone else range(members)
        # For each call, what those that add launch.
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
        """Return what launches the part of a sum that a member adds."""
        engine, members, spec = self.engines[hub], len(self.engines), call.given
        build, chunk = build_for(engine.device.info, members, spec.dtype)
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
