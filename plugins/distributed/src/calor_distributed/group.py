"""Groups of devices, and the transfer of arrays to and from their members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calor.backends.device import Device
from calor.device_selection import as_device
from calor.errors import ArgumentError, DeviceError, ShapeError
from calor.functions.conversion import to_device
from calor.functions.creation import asarray
from calor.functions.joining import concat
from calor.local import local
from calor.recording.trace import computed, materialize
from calor.tensor.tensor import Tensor
from calor_distributed.backend import GroupBackend, group_of
from calor_distributed.executable import GroupBuffer


class Group:
    """Devices that compute together, and the one device that stands for all of them.

    In a ``with`` block new tensors are made on the group, equal on each member.

    Parameters
    ----------
    devices : sequence of Device or str
        The members in their order. A device may occur more than once. Groups are no members.

    Attributes
    ----------
    device : Device
        The device of the group. A tensor on it is one array on each member.

    Raises
    ------
    DeviceError
        If there are no members, one is a group, or a named device is not installed.

    Examples
    --------
    >>> import calor
    >>> both = calor.distributed.group("numpy", "numpy")
    >>> with both:
    ...     x = calor.ones(3)
    >>> x.device, [part.device for part in both.split(x)]
    (device('group:numpy:0,numpy:0'), [device('numpy:0'), device('numpy:0')])
    """

    def __init__(self, devices: Sequence[Any]) -> None:
        self.device = group_of([as_device(d) for d in devices])
        self._contexts: list[Device] = []

    @property
    def devices(self) -> tuple[Device, ...]:
        """The members in their order, a tuple of Device."""
        return _backend(self.device).members

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.devices)

    def __enter__(self) -> Device:
        self._contexts.append(as_device(self.device))
        return self._contexts[-1].__enter__()

    def __exit__(self, *error: object) -> None:
        self._contexts.pop().__exit__(*error)

    def __repr__(self) -> str:
        return f"group({', '.join(repr(d.name) for d in self.devices)})"

    def scatter(self, x: Any, axis: int = 0) -> Tensor:
        """Divide an array along an axis into equal parts, one for each member.

        Gradients flow back to `x`.

        Parameters
        ----------
        x : Tensor or array
            The array to divide. Parts are moved to the devices of the members.
        axis : int, default 0
            Axis that is divided, in the order of the members.

        Returns
        -------
        Tensor
            A tensor on the group. Its size along `axis` is that of `x` divided by the number of
            members.

        Raises
        ------
        ShapeError
            If `axis` is not an axis of `x`, or the number of members does not divide its size.

        Examples
        --------
        >>> import calor
        >>> both = calor.distributed.group("numpy", "numpy")
        >>> both.scatter(calor.ones((4, 3))).shape
        (2, 3)
        """
        count = x.shape[axis] if x.ndim and -x.ndim <= axis < x.ndim else 0
        if not x.ndim or count % self.size:
            raise ShapeError(
                f"axis {axis} of shape {tuple(x.shape)} does not divide into {self.size} equal "
                f"parts; drop the remainder, or pad x"
            )
        step = count // self.size
        before = (slice(None),) * (axis % x.ndim)
        parts = [x[(*before, slice(i * step, (i + 1) * step))] for i in range(self.size)]
        return self.join(parts)

    def join(self, parts: Any) -> Tensor:  # numpydoc ignore=RS01
        """Return the tensor on the group that holds one of the given tensors on each member.

        Gradients flow back to the parts.

        Parameters
        ----------
        parts : sequence of Tensor or array
            One part for each member, in their order, of equal shape and dtype. A part on another
            device is moved to that of its member.

        Returns
        -------
        Tensor
            A tensor on the group, in the shape and dtype of the parts.

        Raises
        ------
        ArgumentError
            If there are not as many parts as members.
        ShapeError
            If the parts differ in shape or dtype.

        Examples
        --------
        >>> import calor
        >>> both = calor.distributed.group("numpy", "numpy")
        >>> x = both.join([calor.ones(2), calor.zeros(2)])
        >>> calor.distributed.all_reduce(x).tolist()
        [1.0, 1.0]
        """
        if len(parts) != self.size:
            raise ArgumentError(
                f"join got {len(parts)} parts for a group of {self.size} members; pass one for each"
            )
        placed = [
            to_device(p, d) if isinstance(p, Tensor) else asarray(p, device=d)
            for p, d in zip(parts, self.devices, strict=True)
        ]
        first = placed[0]
        for other in placed[1:]:
            if (other.shape, other.dtype) != (first.shape, first.dtype):
                raise ShapeError(
                    f"parts {first._value.spec} and {other._value.spec} differ; the parts of one "
                    f"tensor need one shape and dtype"
                )
        made: Tensor = _joined(self, placed)
        return made

    def split(self, x: Tensor) -> list[Tensor]:
        """Return the array of each member as a tensor on that member.

        Gradients flow back to `x`. The values are computed now, so `split` is not allowed inside
        `jit`.

        Parameters
        ----------
        x : Tensor
            A tensor on this group.

        Returns
        -------
        list of Tensor
            One tensor for each member, in their order.

        Raises
        ------
        DeviceError
            If `x` is on another device.
        TraceError
            If a function is being traced, as inside `jit`.

        Examples
        --------
        >>> import calor
        >>> both = calor.distributed.group("numpy", "numpy")
        >>> [part.tolist() for part in both.split(both.scatter(calor.arange(4)))]
        [[0, 1], [2, 3]]
        """
        if x.device is not self.device:
            raise DeviceError(
                f"x is on {x.device.name}, not on {self.device.name}; move it with "
                f"x.to(group.device), or divide it with group.scatter(x)"
            )
        return _split(self, x)

    def gather(self, x: Tensor, axis: int = 0) -> Tensor:  # numpydoc ignore=RS01
        """Concatenate the arrays of all members on the first member; the inverse of `scatter`.

        Parameters
        ----------
        x : Tensor
            A tensor on this group.
        axis : int, default 0
            Axis along which the arrays are joined, in the order of the members.

        Returns
        -------
        Tensor
            The joined array, on the device of the first member.

        Raises
        ------
        DeviceError
            If `x` is on another device.
        AxisError
            If `axis` is not an axis of `x`.
        TraceError
            If a function is being traced, as inside `jit`.

        Examples
        --------
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
        from calor.recording.records import Custom, Projection

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
        from calor.recording.records import Custom, Projection

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
    """Return the group of some devices.

    Parameters
    ----------
    *devices : Device or str
        The members in their order, or one list of them. A device named n times stands for n
        members, so that a program for several devices can run, and be tested, on one.

    Returns
    -------
    Group
        The group.

    Raises
    ------
    DeviceError
        If there are no members, one is a group, or a named device is not installed.

    Examples
    --------
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
        raise DeviceError(
            f"device {device.name} is not a group; make one with calor.distributed.group(...)"
        )
    return backend
