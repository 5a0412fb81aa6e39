"""Collectives on tensors of a group of devices.

Requirements: each function takes a tensor on a group, or a list of tensors on its members. A tensor
on one device is a group of one, so a program for a group also runs on one device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from calor.device_selection import as_device
from calor.errors import ArgumentError
from calor.functions.manipulation import moveaxis
from calor.tensor.tensor import Tensor
from calor_distributed import rows
from calor_distributed.backend import GroupBackend
from calor_distributed.group import Group

KINDS: Final = (*rows.KINDS, "mean")


def all_reduce(x: Any, op: str = "sum") -> Any:
    """Combine the arrays of all members element by element and return the result on each member.

    Arrays are combined in the order of the members. The gradient is that of the sum of all members'
    losses, as in ``torch.distributed.nn``.

    Parameters
    ----------
    x : Tensor or list of Tensor
        A tensor on a group, or one tensor for each device of a group, of equal shape and dtype. A
        tensor on one device is returned as it is.
    op : {"sum", "mean", "prod", "max", "min"}, default "sum"
        The reduction. "mean" divides the sum by the number of members.

    Returns
    -------
    Tensor or list of Tensor
        The result in the form of `x`, with the shape of `x` and equal on all members.

    Raises
    ------
    ArgumentError
        If `op` is another string, or `x` is neither a tensor nor a list of tensors.
    ShapeError
        If the tensors of a list differ in shape or dtype.
    DTypeError
        If the dtype has no such reduction, such as a sum of bool.

    Examples
    --------
    >>> import calor
    >>> from calor.distributed import all_reduce
    >>> [t.tolist() for t in all_reduce([calor.ones(2), calor.ones(2)], "mean")]
    [[1.0, 1.0], [1.0, 1.0]]
    """
    if op not in KINDS:
        raise ArgumentError(f"op is {op!r}; pass one of {', '.join(KINDS)}")
    return _each(x, lambda t: _reduced(rows.all_reduce, t, op))


def all_gather(x: Any, axis: int = 0) -> Any:
    """Concatenate the arrays of all members and return the result on each member.

    Parameters
    ----------
    x : Tensor or list of Tensor
        A tensor on a group, or one tensor for each device of a group, of equal shape and dtype. A
        tensor on one device is returned as it is.
    axis : int, default 0
        Axis along which the arrays are joined, in the order of the members.

    Returns
    -------
    Tensor or list of Tensor
        The result in the form of `x`, equal on all members. Its size along `axis` is that of `x`
        times the number of members.

    Raises
    ------
    ArgumentError
        If `x` is neither a tensor nor a list of tensors.
    AxisError
        If `axis` is not an axis of `x`.
    ShapeError
        If the tensors of a list differ in shape or dtype.

    Examples
    --------
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
    """Combine the arrays of all members and return an equal part of the result on each member.

    Parameters
    ----------
    x : Tensor or list of Tensor
        A tensor on a group, or one tensor for each device of a group, of equal shape and dtype. A
        tensor on one device is returned as it is.
    op : {"sum", "mean", "prod", "max", "min"}, default "sum"
        The reduction. "mean" divides the sum by the number of members.
    axis : int, default 0
        Axis that is divided into parts, in the order of the members.

    Returns
    -------
    Tensor or list of Tensor
        The parts in the form of `x`. Their size along `axis` is that of `x` divided by the number
        of members.

    Raises
    ------
    ArgumentError
        If `op` is another string, or `x` is neither a tensor nor a list of tensors.
    AxisError
        If `axis` is not an axis of `x`.
    ShapeError
        If the number of members does not divide the size of `axis`, or the tensors of a list differ
        in shape or dtype.
    DTypeError
        If the dtype has no such reduction, such as a sum of bool.

    See Also
    --------
    all_reduce : Returns the whole result on each member.

    Examples
    --------
    >>> import calor
    >>> from calor.distributed import reduce_scatter
    >>> [t.tolist() for t in reduce_scatter([calor.arange(4), calor.arange(4)])]
    [[0, 2], [4, 6]]
    """
    if op not in KINDS:
        raise ArgumentError(f"op is {op!r}; pass one of {', '.join(KINDS)}")

    def scattered(t: Any) -> Any:
        return moveaxis(_reduced(rows.reduce_scatter, moveaxis(t, axis, 0), op), 0, axis)

    return _each(x, scattered)


def broadcast(x: Any, src: int = 0) -> Any:
    """Return the array of one member on each member.

    Parameters
    ----------
    x : Tensor or list of Tensor
        A tensor on a group, or one tensor for each device of a group, of equal shape and dtype.
    src : int, default 0
        Number of the member whose array is returned, from 0.

    Returns
    -------
    Tensor or list of Tensor
        The result in the form of `x`, equal on all members.

    Raises
    ------
    ArgumentError
        If the group has no member `src`, or `x` is neither a tensor nor a list of tensors.
    ShapeError
        If the tensors of a list differ in shape or dtype.

    Examples
    --------
    >>> import calor
    >>> from calor.distributed import broadcast
    >>> [t.tolist() for t in broadcast([calor.zeros(1), calor.ones(1)], src=1)]
    [[1.0], [1.0]]
    """
    return _each(x, lambda t: rows.recorded(rows.broadcast, t, root=src, world=_world(t)))


def rank(device: Any = None) -> Tensor:
    """Return the number of each member on that member.

    Parameters
    ----------
    device : Group, Device or str, default None
        A group or device. None is the device on which new tensors are made.

    Returns
    -------
    Tensor
        A 0-d int32 tensor. It holds 0, 1, ... on the members of a group and 0 on any other device.

    Examples
    --------
    >>> import calor
    >>> both = calor.distributed.group("numpy", "numpy")
    >>> [part.item() for part in both.split(calor.distributed.rank(both))]
    [0, 1]
    """
    from calor.device_selection import current_device

    if isinstance(device, Group):
        device = device.device
    place = current_device() if device is None else as_device(device)
    backend = place.backend
    made: Tensor = rows.rank_on(place, backend.world if isinstance(backend, GroupBackend) else 1)
    return made


def average_gradients(parameters: Any) -> None:
    """Replace the gradient of each parameter by its mean over all members.

    Call it after ``backward()`` and before the optimizer's step. All collectives are recorded
    first, so the device runs them as one batch.

    Parameters
    ----------
    parameters : iterable of Tensor
        Tensors on a group, such as ``model.parameters()``. Those without a gradient are skipped.

    Examples
    --------
    >>> import calor
    >>> both = calor.distributed.group("numpy", "numpy")
    >>> w = calor.ones(1, requires_grad=True).to(both.device).detach().requires_grad_()
    >>> (w * both.scatter(calor.asarray([1.0, 3.0]))).sum().backward()
    >>> calor.distributed.average_gradients([w]); w.grad.tolist()
    [2.0]
    """
    from calor.recording.records import no_grad

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
    """Call a function with a tensor on a group, joined from a list of tensors if x is a list."""
    if isinstance(x, Tensor):
        return run(x)
    if not isinstance(x, list | tuple) or not all(isinstance(t, Tensor) for t in x):
        raise ArgumentError(
            f"x has type {type(x).__name__}; pass a tensor on a group, or a list of tensors, one "
            f"for each member"
        )
    tensors: Sequence[Any] = x
    members = Group([t.device for t in tensors])
    return members.split(run(members.join(tensors)))
