"""What members of a group exchange, as functions of tensors.

Requirements: they take a tensor on a group, or a list of tensors on its members; a tensor on a
device alone is that of a group of one, so that a program for a group runs on one device too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from calor.backends.selection import as_device
from calor.errors import ArgumentError
from calor.functions.manipulation import moveaxis
from calor.tensor.tensor import Tensor
from calor_distributed import rows
from calor_distributed.backend import GroupBackend
from calor_distributed.group import Group

KINDS: Final = (*rows.KINDS, "mean")


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
