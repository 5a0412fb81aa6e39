"""Collectives of GPUs by NCCL, or by RCCL with the same functions, through CuPy.

Requirements: one thread queues the parts of all GPUs as one group of calls, on the streams of their
kernels, so no other ordering is needed. A collective goes to NCCL only if NCCL computes calor's
definition (its maximum drops a NaN). Sums of half types are rounded at each of NCCL's steps. NCCL's
order of summation is reproducible on the same machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import Any, Final

from calor.backends.communication import Collective
from calor.errors import DeviceError
from calor_cupy.driver.meeting import StreamMeeting
from calor_cupy.driver.peers import QUEUEING, PeerMemory
from calor_kernel.device.protocol import Handles, Links

# NCCL's names of dtypes; complex dtypes are pairs.
_TYPES: Final = {
    "int8": ("INT8", 1),
    "uint8": ("UINT8", 1),
    "int32": ("INT32", 1),
    "uint32": ("UINT32", 1),
    "int64": ("INT64", 1),
    "uint64": ("UINT64", 1),
    "float16": ("FLOAT16", 1),
    "bfloat16": ("BFLOAT16", 1),
    "float32": ("FLOAT32", 1),
    "float64": ("FLOAT64", 1),
    "complex64": ("FLOAT32", 2),
    "complex128": ("FLOAT64", 2),
}
_NAMES: Final = {
    "all_reduce": "allReduce",
    "all_gather": "allGather",
    "reduce_scatter": "reduceScatter",
    "broadcast": "broadcast",
}
_MOVES: Final = ("all_gather", "broadcast")
# The meaning of NCCL's error codes, with a remedy.
_MEANINGS: Final = {
    1: "a call of the driver failed within NCCL",
    2: "a call of the system failed within NCCL (is /dev/shm large enough?)",
    3: "NCCL broke",
    4: "NCCL refuses an argument",
    5: "NCCL refuses the call (GPUs of a group have to be different)",
    6: "another GPU of the group failed",
}


@contextmanager
def told(nccl: Any, what: str) -> Iterator[None]:
    """Convert NCCL's errors to calor's; ``what`` names the attempted operation."""
    try:
        yield
    except nccl.NcclError as error:
        code = int(getattr(error, "status", 0))
        meaning = _MEANINGS.get(code, f"NCCL answers {code}")
        raise DeviceError(
            f"{meaning}: {what}: {error}; NCCL_DEBUG=WARN in the environment says more"
        ) from error


class CupyLinks(Links):
    """An NCCL communicator per GPU, and their streams; ``nccl`` is CuPy's module."""

    def __init__(self, memories: Sequence[PeerMemory], nccl: Any) -> None:
        self.nccl = nccl
        self.streams = [memory.on for memory in memories]
        pairs = list(combinations(memories, 2))
        reached = [a.peers.open(b) for a, b in pairs]
        if not all(reached):
            # NCCL stages buffers that a peer cannot read through its own.
            os.environ.setdefault("NCCL_P2P_DIRECT_DISABLE", "1")
        numbers = [s.number for s in self.streams]
        with told(self.nccl, f"connecting GPUs {', '.join(map(str, numbers))}"):
            self.communicators = self.nccl.NcclCommunicator.initAll(numbers)
        self._meeting = StreamMeeting(self.streams) if all(reached) else None

    def takes(self, call: Collective) -> bool:
        """Return whether NCCL has the collective: it moves any dtype, but does not reduce all."""
        if call.op in _MOVES:
            return True
        dtype = call.given.dtype
        if call.kind in ("max", "min"):
            return dtype.is_integer and dtype.name in _TYPES
        return dtype.name in _TYPES and not (call.kind == "prod" and dtype.is_complex)

    def prepare(self, calls: Sequence[Collective]) -> Callable[[Handles, Handles], None]:
        """Return a function that queues the collectives of all GPUs as one group of calls."""
        nccl = self.nccl
        what = f"queueing {', '.join(c.op for c in calls)}"
        # For each call and GPU: NCCL's function, and its arguments after the buffers.
        parts = [list(self._parts(call)) for call in calls]
        start, end, failed = nccl.groupStart, nccl.groupEnd, nccl.NcclError

        def run(given: Handles, made: Handles) -> None:
            with QUEUEING:
                try:
                    start()
                    try:
                        for members, sent, got in zip(parts, given, made, strict=True):
                            for (queue, rest), source, target in zip(
                                members, sent, got, strict=False
                            ):
                                queue(source, target, *rest)
                    finally:
                        end()
                except failed:
                    with told(nccl, what):
                        raise

        return run

    def _parts(self, call: Collective) -> Iterator[tuple[Any, tuple[int, ...]]]:
        """Yield for each GPU NCCL's function, and its arguments after the buffers."""
        count, dtype = self._elements(call)
        if not count:
            return
        reduces = () if call.op in _MOVES else (getattr(self.nccl, f"NCCL_{call.kind.upper()}"),)
        root = (call.root,) if call.op == "broadcast" else ()
        for communicator, stream in zip(self.communicators, self.streams, strict=True):
            yield (
                getattr(communicator, _NAMES[call.op]),
                (count, dtype, *reduces, *root, stream.stream),
            )

    def _elements(self, call: Collective) -> tuple[int, int]:
        """Return the element count and NCCL dtype that a member sends, or receives if scattered.

        Data that is only moved counts as bytes.
        """
        if call.op in _MOVES:
            return call.given.nbytes, self.nccl.NCCL_UINT8
        name, each = _TYPES[call.given.dtype.name]
        known = call.made if call.op == "reduce_scatter" else call.given
        return known.size * each, getattr(self.nccl, f"NCCL_{name}")

    def meeting(self) -> StreamMeeting | None:
        """Return how the GPUs synchronize if all are connected to each other, else None."""
        return self._meeting

    def close(self) -> None:
        """Free NCCL's memory."""
        if self._meeting is not None:
            self._meeting.close()
        for communicator in self.communicators:
            communicator.destroy()
        self.communicators = []
