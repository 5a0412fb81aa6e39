"""Groups of devices, and how arrays come to their members and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor.backends.device import Device
from calor.backends.selection import as_device, on_device
from calor.errors import ArgumentError, DeviceError, ShapeError
from calor.functions.conversion import to_device
from calor.functions.creation import asarray
from calor.functions.joining import concat
from calor.graph.trace import computed, local, materialize
from calor.tensor.tensor import Tensor
from calor_distributed.backend import GroupBackend, group_of
from calor_distributed.executable import GroupBuffer


class Group:
    """Devices that compute together, and the one device that stands for all of them.

    Attributes: ``devices``, the members in their order; ``device``, on which a tensor is an array
    on each member; ``size``. As a context it is where new tensors are made, the same on each
    member.

    >>> import calor
    >>> both = calor.distributed.group("numpy", "numpy")
    >>> with both:
    ...     x = calor.ones(3)
    >>> x.device, [part.device for part in both.split(x)]
    (device('group:numpy:0,numpy:0'), [device('numpy:0'), device('numpy:0')])
    """

    def __init__(self, devices: Sequence[Any]) -> None:
        self.device = group_of([as_device(d) for d in devices])
        self._contexts: list[on_device] = []

    @property
    def devices(self) -> tuple[Device, ...]:
        """The members, in their order."""
        return _backend(self.device).members

    @property
    def size(self) -> int:
        """How many members there are."""
        return len(self.devices)

    def __enter__(self) -> Device:
        self._contexts.append(on_device(self.device))
        return self._contexts[-1].__enter__()

    def __exit__(self, *error: object) -> None:
        self._contexts.pop().__exit__(*error)

    def __repr__(self) -> str:
        return f"group({', '.join(repr(d.name) for d in self.devices)})"

    def scatter(self, x: Any, axis: int = 0) -> Tensor:
        """Return equal parts of a tensor or array along an axis, one to each member, in order.

        ShapeError where the axis does not divide into so many parts.

        >>> import calor
        >>> both = calor.distributed.group("numpy", "numpy")
        >>> both.scatter(calor.ones((4, 3))).shape
        (2, 3)
        """
        count = x.shape[axis] if x.ndim and -x.ndim <= axis < x.ndim else 0
        if not x.ndim or count % self.size:
            raise ShapeError(
                f"axis {axis} of shape {tuple(x.shape)} does not divide into {self.size} equal "
                f"parts; leave a remainder out, or pad it"
            )
        step = count // self.size
        before = (slice(None),) * (axis % x.ndim)
        parts = [x[(*before, slice(i * step, (i + 1) * step))] for i in range(self.size)]
        return self.join(parts)

    def join(self, parts: Any) -> Tensor:
        """Return the tensor on the group of which each member has one of these, in order.

        Parts that are on another device than their member are moved there. Gradients flow back.

        >>> import calor
        >>> both = calor.distributed.group("numpy", "numpy")
        >>> x = both.join([calor.ones(2), calor.zeros(2)])
        >>> calor.distributed.all_reduce(x).tolist()
        [1.0, 1.0]
        """
        if len(parts) != self.size:
            raise ArgumentError(f"{len(parts)} tensors for a group of {self.size} members")
        placed = [
            to_device(p, d) if isinstance(p, Tensor) else asarray(p, device=d)
            for p, d in zip(parts, self.devices, strict=True)
        ]
        first = placed[0]
        for other in placed[1:]:
            if (other.shape, other.dtype) != (first.shape, first.dtype):
                raise ShapeError(
                    f"members of one value have arrays of one kind, not {first._value.spec} and "
                    f"{other._value.spec}"
                )
        made: Tensor = _joined(self, placed)
        return made

    def split(self, x: Tensor) -> list[Tensor]:
        """Return each member's array of a tensor on the group, as a tensor on that member.

        Gradients flow back.

        >>> import calor
        >>> both = calor.distributed.group("numpy", "numpy")
        >>> [part.tolist() for part in both.split(both.scatter(calor.arange(4)))]
        [[0, 1], [2, 3]]
        """
        if x.device is not self.device:
            raise DeviceError(f"the tensor is on {x.device.name}, not on {self.device.name}")
        return _split(self, x)

    def gather(self, x: Tensor, axis: int = 0) -> Tensor:
        """Return all members' arrays, joined along an axis, as a tensor on the first member.

        It is what undoes ``scatter``.

        >>> import calor
        >>> both = calor.distributed.group("numpy", "numpy")
        >>> both.gather(both.scatter(calor.arange(4))).tolist()
        [0, 1, 2, 3]
        """
        first = self.devices[0]
        return concat([to_device(part, first) for part in self.split(x)], axis=axis)


def _joined(members: Group, placed: Sequence[Any]) -> Any:
    known = placed[0]._value.spec
    parts = [
        d.backend.copy(d.index, materialize(p._value), known, d.index)
        for p, d in zip(placed, members.devices, strict=True)
    ]
    made = computed(known, members.device, GroupBuffer(parts))
    records = tuple(p._record for p in placed)
    if local.grad_enabled and known.dtype.is_inexact and any(r is not None for r in records):
        from calor.transforms.records import Custom, Projection

        def pull(gs: list[Any]) -> list[Any]:
            return list(_split(members, gs[0]))

        made._record = Projection(Custom(records, pull, 1, (known,)), 0)
    return made


def _split(members: Group, x: Any) -> list[Any]:
    known = x._value.spec
    buffer = materialize(x._value)
    made = [
        computed(known, d, d.backend.copy(d.index, part, known, d.index))
        for d, part in zip(members.devices, buffer.parts, strict=True)
    ]
    if local.grad_enabled and known.dtype.is_inexact and x._record is not None:
        from calor.ops.sources import zeros_of
        from calor.transforms.records import Custom, Projection

        def pull(gs: list[Any]) -> list[Any]:
            given = [
                zeros_of(known, d) if g is None else g
                for g, d in zip(gs, members.devices, strict=True)
            ]
            return [_joined(members, given)]

        record = Custom((x._record,), pull, members.size, (known,) * members.size)
        for place, tensor in enumerate(made):
            tensor._record = Projection(record, place)
    return made


def group(*devices: Any) -> Group:
    """Return the group of these devices, given as Devices, by name, or as one list of them.

    A device that is named several times is as many members, so that programs for several devices
    run, and are tested, on one. Raises DeviceError for a device that is not there.

    >>> import calor
    >>> calor.distributed.group("numpy", "numpy").size
    2
    """
    if len(devices) == 1 and isinstance(devices[0], list | tuple):
        devices = tuple(devices[0])
    return Group(devices)


def _backend(device: Device) -> GroupBackend:
    backend = device.backend
    if not isinstance(backend, GroupBackend):
        raise DeviceError(f"{device.name} is no group; calor.distributed.group(...) makes one")
    return backend
