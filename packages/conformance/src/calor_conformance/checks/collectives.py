"""Collectives: the results of exchanges between members of a group, and their order.

A group contains the device twice and three times, so one device is enough. If its backend has
several devices, they form groups too, with the backend's own communicator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import calor
from calor.backends.device import device_of
from calor.distributed import (
    Group,
    all_gather,
    all_reduce,
    average_gradients,
    broadcast,
    group,
    rank,
    reduce_scatter,
)
from calor_distributed.backend import GroupBackend

from .base import Array, Place, plain_array
from .contract import Contracts

contract = Contracts("collectives")
_OPS: dict[str, Callable[..., Array]] = {
    "sum": lambda rows: rows.sum(0),
    "mean": lambda rows: rows.sum(0) / len(rows),
    "prod": lambda rows: rows.prod(0),
    "max": lambda rows: rows.max(0),
    "min": lambda rows: rows.min(0),
}


def _groups(place: Place) -> Iterator[Group]:
    """Yield groups of the device with itself, and of all devices of its backend."""
    device = place.device
    if isinstance(device.backend, GroupBackend):
        yield group(*device.backend.members)
        return
    for count in (1, 2, 3):
        yield group(*[device] * count)
    several = device.backend.enumerate()
    if several > 1:
        yield group(*(device_of(device.backend, i) for i in range(several)))


def _rows(members: Group, *shape: int) -> Array:
    """Return small integers for each member, whose sums and products are exact in every dtype."""
    count = members.size * int(np.prod(shape))
    return plain_array((np.arange(count) * 7 % 5 - 2).reshape(members.size, *shape))


def _each(members: Group, x: Any) -> list[Any]:
    return [part.tolist() for part in members.split(x)]


@contract("arrays of all members are reduced by each operation, and every member has the result")
def reduced(place: Place) -> None:
    for members in _groups(place):
        rows = _rows(members, 2, 3)
        for op, meaning in _OPS.items():
            got = _each(members, place.call(lambda x, op=op: all_reduce(x, op), members.join(rows)))
            wanted = meaning(rows.astype(np.float64))
            if rows.dtype.kind == "i" and op == "mean":
                continue
            np.testing.assert_allclose(got, [wanted] * members.size, rtol=1e-3, err_msg=op)


@contract("arrays are joined in the order of the members, and cut in the same order")
def gathered_and_scattered(place: Place) -> None:
    for members in _groups(place):
        world = members.size
        rows = _rows(members, world, 2)
        x = members.join(rows)
        joined = np.concatenate(list(rows))
        assert _each(members, place.call(all_gather, x)) == [joined.tolist()] * world
        along = np.concatenate(list(rows), axis=1).tolist()
        got = _each(members, place.call(lambda x: all_gather(x, axis=1), x))
        assert got == [along] * world
        got = _each(members, place.call(reduce_scatter, x))
        assert got == [rows.sum(0)[i : i + 1].tolist() for i in range(world)]
        assert members.gather(members.scatter(joined)).tolist() == joined.tolist()


@contract("what one member has, all have; and each knows its number")
def broadcast_and_ranked(place: Place) -> None:
    for members in _groups(place):
        rows = _rows(members, 3)
        for source in {0, members.size - 1}:
            got = place.call(lambda x, source=source: broadcast(x, source), members.join(rows))
            assert _each(members, got) == [rows[source].tolist()] * members.size
        assert _each(members, rank(members)) == list(range(members.size))


@contract("collectives that depend on each other run in their order, within jit too")
def in_order(place: Place) -> None:
    def chain(x: Any) -> Any:
        total = all_reduce(x)
        all_reduce(x * 3)  # Nobody reads it, and it has its turn all the same.
        return all_reduce(total + x, "max"), all_gather(total * 2)

    for members in _groups(place):
        rows = _rows(members, 2)
        total = rows.sum(0)
        for run in (chain, calor.jit(chain)):
            if run is chain and not place.interactive:
                continue
            most, joined = run(members.join(rows))
            assert most.tolist() == (rows + total).max(0).tolist()
            assert joined.tolist() == [*(total * 2)] * members.size


@contract("a step on parts of a batch is the step on the batch", tier="training")
def data_parallel(place: Place) -> None:
    x = plain_array([[1, 2], [3, -1], [0, 1], [2, 2], [1, 0], [-1, 1]])
    for members in _groups(place):
        if len(x) % members.size:
            continue

        def step(w: Any, x: Any) -> Any:
            loss = calor.mean((x @ w) ** 2)
            loss.backward()
            average_gradients([w])
            return all_reduce(loss, "mean")

        with members:
            w = calor.asarray(plain_array([0.5, -1]))
            w.requires_grad_()
        loss = calor.jit(step)(w, members.scatter(x))
        exact = x.astype(np.float64) @ [0.5, -1]
        np.testing.assert_allclose(loss.item(), (exact**2).mean(), rtol=1e-2)
        wanted = 2 * (exact[:, None] * x).mean(0)
        assert w.grad is not None
        np.testing.assert_allclose(w.grad.numpy().astype(np.float64), wanted, rtol=1e-2)


CHECKS = contract.checks
