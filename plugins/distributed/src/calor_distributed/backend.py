"""A group of devices as one device: each value is an array on every member.

Requirements: one process drives several devices by one program. Lazy recording, jit, gradients and
state in place work on a group as on a device, and no member waits for a collective that another
never reaches. Ops run on each member with its own arrays; a collective exchanges them. An upload
goes to all members; a download needs equal arrays on all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import numpy as np

from calor.backends.communication import Collective, Communicator, Exchange
from calor.backends.device import Device, device_of
from calor.backends.protocol import (
    FEATURES,
    FULL,
    Backend,
    Claim,
    Executable,
    Info,
    MemoryFigures,
    State,
    impossible,
    partial,
)
from calor.errors import DeviceError, MembersDifferError
from calor.graph.graph import Graph
from calor.plugins.discovery import get_device
from calor.specs import Spec
from calor_distributed.copies import Copies
from calor_distributed.executable import GroupBuffer, GroupExecutable, refusals
from calor_distributed.rows import COLLECTIVES

SCHEME: Final = "group:"
_LEVELS: Final = ("full", "partial", "not_yet", "impossible")
_opened: dict[tuple[Device, ...], GroupBackend] = {}
_lock = threading.Lock()

Array = np.ndarray[Any, Any]


def open_group(text: str) -> Device:
    """Return the device of ``group:NAME,NAME``.

    Raises
    ------
    DeviceError
        If a name is missing, or is that of a group.
    """
    names = [name.strip() for name in text.removeprefix(SCHEME).split(",")]
    if not all(names):
        raise DeviceError(f'"{text}" misses the name of a device; write "group:cuda:0,cuda:1"')
    return group_of([get_device(name) for name in names])


def group_of(members: Sequence[Device]) -> Device:
    """Return the device that stands for these members, in their order.

    A device may be a member several times, which lets one device test a program for several.

    Raises
    ------
    DeviceError
        If there are no members, or one is a group.
    """
    found = tuple(members)
    if not found:
        raise DeviceError('the group has no members; write calor.distributed.group("cpu", "cpu")')
    for member in found:
        if isinstance(member.backend, GroupBackend):
            raise DeviceError(f"member {member.name} is a group; name its members instead")
    with _lock:
        backend = _opened.get(found)
        if backend is None:
            backend = _opened[found] = GroupBackend(found)
    return backend.device


class GroupBackend(Backend):
    """A backend with one device: the group of its members."""

    def __init__(self, members: Sequence[Device]) -> None:
        self.members = tuple(members)
        self.world = len(self.members)
        self.name = SCHEME + ",".join(member.name for member in self.members)
        # Members that share a device share what is compiled for it.
        self.places = tuple(dict.fromkeys(self.members))
        self.lock = threading.RLock()
        self.copies = Copies(self.members, self._note)
        self._own: Communicator | None = None
        self._asked = False

    @property
    def device(self) -> Device:
        """The group as core sees it."""
        return device_of(self, 0)

    def device_name(self, index: int) -> str:
        """Return the name of the group, which `calor.device` takes."""
        return self.name

    def _note(self, nbytes: int) -> None:
        self.device.transfers += 1
        self.device.transferred_bytes += nbytes

    def communicator_for(self, call: Collective) -> Communicator:
        """Return the devices' own communicator if it takes the collective, else copies."""
        own = self._communicator()
        return own if own is not None and own.takes(call) else self.copies

    def _communicator(self) -> Communicator | None:
        """Return the devices' own communicator, created at the first call, or None."""
        with self.lock:
            if not self._asked:
                if self._reach():
                    backend = self.members[0].backend
                    self._own = backend.communicator([m.index for m in self.members])
                self._asked = True
            return self._own

    def _reach(self) -> bool:
        """Return whether the members are different devices of one backend with collectives."""
        same = all(m.backend is self.members[0].backend for m in self.members)
        apart = len(self.places) == self.world > 1
        return same and apart and bool(self.members[0].info.feature("collectives"))

    # Description.
    def opened(self, index: int) -> bool:
        """Return whether every member was opened; the group's description needs all of them."""
        return all(m.backend.opened(m.index) for m in self.members)

    def enumerate(self) -> int:
        """Return 1, the group itself."""
        return 1

    def info(self, index: int) -> Info:
        """Return the capabilities that every member has."""
        infos = [place.info for place in self.places]
        unlike = "a value is an array on each member; group.split(x) returns these arrays"
        features = {name: _least(i.feature(name) for i in infos) for name in FEATURES}
        for name in ("host_views", "dlpack", "serialize", "memory_limit"):
            features[name] = impossible(unlike)
        features["collectives"] = impossible("a group is one device")
        dtypes = dict.fromkeys(t for i in infos for t in i.dtypes)
        absent = impossible("a member does not support it")
        ops = dict.fromkeys(key for i in infos for key in i.ops)
        return Info(
            description=f"{self.world} members: {'; '.join(m.name for m in self.members)}",
            dtypes={t: _least(i.dtypes.get(t, absent) for i in infos) for t in dtypes},
            features=features,
            ops={
                **{key: _least(i.ops.get(key, FULL) for i in infos) for key in ops},
                **{row.name: self._state() for row in COLLECTIVES},
                "rank": FULL,
            },
            limits={
                **{
                    name: min(i.limits[name] for i in infos if name in i.limits)
                    for name in dict.fromkeys(n for i in infos for n in i.limits)
                },
                "members": self.world,
            },
            flushes=frozenset().union(*(i.flushes for i in infos)),
        )

    def _state(self) -> State:
        if self.world == 1 or self._reach():
            return FULL
        return partial("copies between the members, counted as fallbacks and transfers")

    # Memory.
    def upload(self, index: int, array: Array) -> GroupBuffer:
        """Copy a host array to every member."""
        return GroupBuffer([m.backend.upload(m.index, array) for m in self.members])

    def download(self, index: int, buffer: Any, spec: Spec) -> Array:
        """Return the array that all members hold.

        Raises
        ------
        MembersDifferError
            If the arrays of two members differ in a bit.
        """
        arrays = [
            m.backend.download(m.index, part, spec)
            for m, part in zip(self.members, buffer.parts, strict=True)
        ]
        first = np.array(arrays[0], order="C")
        bits = first.reshape(-1).view(np.uint8)
        for number, other in enumerate(arrays[1:], 1):
            if not np.array_equal(bits, np.ascontiguousarray(other).reshape(-1).view(np.uint8)):
                raise MembersDifferError(
                    f"members 0 and {number} of {self.name} have different arrays for this value; "
                    f"read all of them with group.split(x), or combine them first with "
                    f"calor.distributed.all_reduce or all_gather"
                )
        return first

    def copy(self, index: int, buffer: Any, spec: Spec, target: int) -> GroupBuffer:
        """Copy each member's array on its device."""
        return GroupBuffer(
            [
                m.backend.copy(m.index, part, spec, m.index)
                for m, part in zip(self.members, buffer.parts, strict=True)
            ]
        )

    def memory(self, index: int) -> MemoryFigures:
        """Return the sums of the members' figures, counting each device once."""
        figures = [place.memory for place in self.places]
        limits = [f.limit for f in figures]
        return MemoryFigures(
            sum(f.in_use for f in figures),
            sum(f.peak for f in figures),
            sum(n for n in limits if n is not None) if None not in limits else None,
        )

    # Graphs.
    def claim(self, index: int, graph: Graph) -> Claim:
        """Claim the nodes that all members claim, and collectives of this number of members."""
        reasons = refusals(self.places, self.world, graph)
        reasons.update(self.device.info.objections(graph))
        taken = tuple(i for i in range(len(graph.nodes)) if i not in reasons)
        return Claim((taken,) if taken else (), reasons)

    def compile(self, index: int, graph: Graph) -> Executable:
        """Compile the segments between collectives for each device among the members."""
        return GroupExecutable(self, graph)

    def verify(self, index: int, buffers: Sequence[Any]) -> None:
        """Raise the first error on which a member's array depends."""
        for number, member in enumerate(self.members):
            member.backend.verify(member.index, [b.parts[number] for b in buffers])

    def synchronize(self, index: int) -> None:
        """Wait for every member; raise the first error."""
        failed: Exception | None = None
        for place in self.places:
            try:
                place.backend.synchronize(place.index)
            except DeviceError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def prepare(self, calls: Sequence[Collective]) -> Exchange:
        """Return a function that runs collectives; a communicator takes neighbours as one batch.

        Threads take turns, so every member gets the same order.
        """
        with self.lock:
            runs = _runs(calls, self.communicator_for)
            work = [(c.prepare(calls[part]), part) for c, part in runs]
        copied = sum(p.stop - p.start for c, p in runs if c is self.copies and self.world > 1)
        if len(work) == 1:
            ((only, _),) = work
            if not copied:
                return _in_turn(only, self.lock)

        def run(inputs: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
            with self.lock:
                self.device.fallbacks += copied
                return [made for step, part in work for made in step(inputs[part])]

        return run

    def close(self) -> None:
        """Close the communicator; the members stay open."""
        if self._own is not None:
            self._own.close()
            self._own, self._asked = None, False


def _in_turn(step: Exchange, lock: AbstractContextManager[Any]) -> Exchange:
    def run(inputs: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        with lock:
            return step(inputs)

    return run


def _least(states: Iterable[State]) -> State:
    """Return the lowest of the members' states of a capability."""
    return max(states, key=lambda state: _LEVELS.index(state.level))


def _runs(
    calls: Sequence[Collective], choose: Callable[[Collective], Communicator]
) -> list[tuple[Communicator, slice]]:
    """Return the runs of neighbouring calls with one communicator, as slices of the calls."""
    found: list[tuple[Communicator, slice]] = []
    for place, call in enumerate(calls):
        chosen = choose(call)
        if found and found[-1][0] is chosen:
            found[-1] = (chosen, slice(found[-1][1].start, place + 1))
        else:
            found.append((chosen, slice(place, place + 1)))
    return found
