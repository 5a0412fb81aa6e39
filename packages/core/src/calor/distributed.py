"""Several devices of one host as one: groups, and what their members exchange.

One process drives all devices of a group by one program. A group is a device: a tensor on it is an
array on each member, an op runs on every member with that member's arrays, and a collective is an
op among others. So jit, gradients, modules and optimizers work on a group as on one device, no
member can wait for a collective that another one never reaches, and there are no ranks to start.
Programs of one process per device, and of many machines, are left to engines made for it (Ray,
MPI).

>>> import calor
>>> from calor.distributed import all_reduce, group
>>> both = group("numpy", "numpy")
>>> x = both.scatter(calor.asarray([1.0, 2.0, 3.0, 4.0]))
>>> all_reduce(x).tolist()
[4.0, 6.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from calor.backends.device import Device
from calor.backends.group import GroupBackend, group_of
from calor.backends.group_executable import GroupBuffer
from calor.backends.selection import as_device, on_device
from calor.errors import ArgumentError, DeviceError, ShapeError
from calor.functions.creation import asarray, to_device
from calor.functions.joining import concat
from calor.functions.manipulation import moveaxis
from calor.graph.trace import computed, local, materialize
from calor.ops import collectives as rows
from calor.tensor.tensor import Tensor

__all__ = [
    "Group",
    "all_gather",
    "all_reduce",
    "average_gradients",
    "broadcast",
    "group",
    "rank",
    "reduce_scatter",
]

KINDS: Final = (*rows.KINDS, "mean")


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


def all_reduce(x: Any, op: str = "sum") -> Any:
    """Return on each member the sum, mean, product, maximum or minimum of all members' arrays.

    ``op`` is "sum", "mean", "prod", "max" or "min". ``x`` is a tensor on a group, or a list of
    tensors, one on each device of a group, for which it returns a list. A tensor on a device is a
    group of one.

    >>> import calor
    >>> from calor.distributed import all_reduce
    >>> [t.tolist() for t in all_reduce([calor.ones(2), calor.ones(2)], "mean")]
    [[1.0, 1.0], [1.0, 1.0]]
    """
    if op not in KINDS:
        raise ArgumentError(f"arrays are reduced by {', '.join(KINDS)}, not by {op!r}")
    return _each(x, lambda t: _reduced(rows.all_reduce, t, op))


def all_gather(x: Any, axis: int = 0) -> Any:
    """Return on each member the arrays of all members, joined along an axis in their order.

    ``x`` is as in :func:`all_reduce`.

    >>> import calor
    >>> both = calor.distributed.group("numpy", "numpy")
    >>> calor.distributed.all_gather(both.scatter(calor.arange(4))).tolist()
    [0, 1, 2, 3]
    """

    def gathered(t: Any) -> Any:
        made = rows.recorded(rows.all_gather, moveaxis(t, axis, 0), world=_world(t))
        return moveaxis(made, 0, axis)

    return _each(x, gathered)


def reduce_scatter(x: Any, op: str = "sum", axis: int = 0) -> Any:
    """Return on each member its part, along an axis, of what :func:`all_reduce` gives.

    ShapeError where the axis does not divide into as many equal parts as there are members.

    >>> import calor
    >>> from calor.distributed import reduce_scatter
    >>> [t.tolist() for t in reduce_scatter([calor.arange(4), calor.arange(4)])]
    [[0, 2], [4, 6]]
    """
    if op not in KINDS:
        raise ArgumentError(f"arrays are reduced by {', '.join(KINDS)}, not by {op!r}")

    def scattered(t: Any) -> Any:
        return moveaxis(_reduced(rows.reduce_scatter, moveaxis(t, axis, 0), op), 0, axis)

    return _each(x, scattered)


def broadcast(x: Any, src: int = 0) -> Any:
    """Return on each member the array of member ``src``.

    >>> import calor
    >>> from calor.distributed import broadcast
    >>> [t.tolist() for t in broadcast([calor.zeros(1), calor.ones(1)], src=1)]
    [[1.0], [1.0]]
    """
    return _each(x, lambda t: rows.recorded(rows.broadcast, t, root=src, world=_world(t)))


def rank(device: Any = None) -> Tensor:
    """Return on each member its number, from 0: a 0-d int32 tensor; 0 on a device of no group.

    ``device`` is a group or device; None for the one on which new tensors are made.

    >>> import calor
    >>> both = calor.distributed.group("numpy", "numpy")
    >>> [part.item() for part in both.split(calor.distributed.rank(both))]
    [0, 1]
    """
    from calor.backends.selection import current_device

    if isinstance(device, Group):
        device = device.device
    place = current_device() if device is None else as_device(device)
    backend = place.backend
    made: Tensor = rows.rank_on(place, backend.world if isinstance(backend, GroupBackend) else 1)
    return made


def average_gradients(parameters: Any) -> None:
    """Replace the gradient of each parameter by the mean of all members' gradients.

    ``parameters`` are tensors on a group, such as ``model.parameters()``; those without a gradient
    are left out. It stands between ``backward()`` and the optimizer's step, and all collectives are
    handed over together.

    >>> import calor
    >>> both = calor.distributed.group("numpy", "numpy")
    >>> w = calor.ones(1, requires_grad=True).to(both.device).detach().requires_grad_()
    >>> (w * both.scatter(calor.asarray([1.0, 3.0]))).sum().backward()
    >>> calor.distributed.average_gradients([w]); w.grad.tolist()
    [2.0]
    """
    from calor.transforms.records import no_grad

    with no_grad():
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad = all_reduce(parameter.grad, "mean")


def _backend(device: Device) -> GroupBackend:
    backend = device.backend
    if not isinstance(backend, GroupBackend):
        raise DeviceError(f"{device.name} is no group; calor.distributed.group(...) makes one")
    return backend


def _world(x: Any) -> int:
    backend = x.device.backend
    return backend.world if isinstance(backend, GroupBackend) else 1


def _reduced(row: Any, x: Any, op: str) -> Any:
    world = _world(x)
    if op == "mean":
        return rows.recorded(row, x, kind="sum", world=world) / world
    return rows.recorded(row, x, kind=op, world=world)


def _each(x: Any, run: Any) -> Any:
    """Call a function with a tensor on a group, made of a list of tensors where it is one."""
    if isinstance(x, Tensor):
        return run(x)
    if not isinstance(x, list | tuple) or not all(isinstance(t, Tensor) for t in x):
        raise ArgumentError("a collective takes a tensor on a group, or a list of tensors")
    tensors: Sequence[Any] = x
    members = Group([t.device for t in tensors])
    return members.split(run(members.join(tensors)))
