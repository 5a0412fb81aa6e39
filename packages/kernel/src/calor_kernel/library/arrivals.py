"""How cubes of a launch wait for each other: numbers of their starts, counts of arrivals.

Requirements: a cube waits only for cubes that started before it, and these wait for none. Running
cubes make progress (`forward_progress`), so a launch ends in whatever order cubes are scheduled.
Words that count are 0 before and after a launch. Who sees a count of arrivals sees what these cubes
stored before.
"""

from __future__ import annotations

from calor.dtypes import int32, int64, uint64
from calor_kernel import language as kl


@kl.helper
def ticket(tickets: kl.Pointer, slot: kl.Pointer, place: kl.Index = 0) -> kl.Number:
    """Return the number of a cube in the order of starts.

    ``slot``: an int32 of shared memory. ``tickets[place]`` counts the cubes.
    """
    if kl.unit_index() == 0:
        slot[0] = tickets.atomic("add", place, kl.constant(1, tickets.dtype)).to(int32)
    kl.barrier()
    item = slot[0].to(int64)
    kl.barrier()
    return item


@kl.helper
def arrive(flags: kl.Pointer, place: kl.Index) -> kl.Number:
    """Count a unit at ``flags[place]``, with what it and units before its last barrier stored.

    Return the count before, as an int32.
    """
    kl.fence("device", "release")
    return flags.atomic("add", place, kl.constant(1, flags.dtype)).to(int32)


@kl.helper
def leave(flags: kl.Pointer, place: kl.Index) -> None:
    """Reset ``flags[place]`` for the next launch."""
    flags.store(place, kl.constant(0, flags.dtype), order="relaxed", scope="device")


@kl.helper
def is_last(flags: kl.Pointer, place: kl.Index, count: kl.Number) -> kl.Mask:
    """Return whether a cube is the last of ``count`` that come here, and sees what they stored.

    ``flags[place]`` counts them, and is 0 again after the last. All units of a cube call it.
    """
    slot = kl.shared(1, int32)
    kl.barrier()
    if kl.unit_index() == 0:
        before = arrive(flags, place)
        kl.fence("device", "acquire")
        if before == count.to(int32) - 1:
            leave(flags, place)
        slot[0] = before
    kl.barrier()
    return slot[0] == count.to(int32) - 1


@kl.helper
def wait_for(flags: kl.Pointer, place: kl.Index, count: kl.Number) -> None:
    """Wait until ``count`` units have arrived at ``flags[place]``; all units of a cube call it.

    The first plane waits as one: a unit that leaves a loop before its neighbours may run on
    without them.
    """
    if kl.unit_index() < kl.plane_size():
        behind = kl.constant(1, uint64)
        while behind != 0:
            arrived = flags.load(place, order="relaxed", scope="device").to(int32)
            few = arrived < count.to(int32)
            behind = kl.plane_ballot(few) if kl.plane_size() > 1 else few.to(uint64)
        kl.fence("device", "acquire")
    kl.barrier()
