"""The limits that a device declares: values within them work, values above are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import calor
from calor.errors import CalorError, UnsupportedError

from .base import Array, Place, plain_array
from .contract import Contracts

contract = Contracts("features")


@contract(
    "a rank above limits['max_rank'] is refused by a typed error, one below it works",
    tier="full",
    looks=False,
)
def max_rank(place: Place) -> None:
    limit = place.plain.info.limits.get("max_rank")
    most = min(limit or 8, 8)
    for number in range(len(_walks(1))):
        _walk(place, number, most, limit)
    if limit is not None:
        beyond = plain_array(np.ones((1,) * (limit + 1)))
        try:
            place.call(lambda x: x + 1, calor.asarray(beyond)).numpy()
        except CalorError:
            return
        raise AssertionError(f"max_rank is {limit}, and rank {limit + 1} works: it is held back")


def _walk(place: Place, number: int, rank: int, limit: int | None) -> None:
    """Compute one of the walks at a rank, which a device with the op must support."""
    run, array, want = _walks(rank)[number]
    small, flat, _ = _walks(2)[number]
    try:
        place.call(small, calor.asarray(flat)).numpy()
    except UnsupportedError:
        return
    try:
        got = place.call(run, calor.asarray(array)).numpy()
    except UnsupportedError as error:
        raise AssertionError(f"rank {rank} is within the limit {limit}, yet: {error}") from error
    assert got.tolist() == want.tolist(), f"at rank {rank}: {got}, not {want}"


def _walks(rank: int) -> list[tuple[Callable[[Any], Any], Array, Array]]:
    """Return functions that move, add and repeat along every axis of an array of a rank."""
    shape = tuple(2 if i % 3 else 1 for i in range(rank))
    array = plain_array(np.arange(np.prod(shape)) % 100).reshape(shape)
    order = (*range(1, rank, 2), *range(0, rank, 2))
    odd = tuple(range(1, rank, 2))
    turned = tuple(slice(None, None, -1) for _ in shape)
    return [
        (lambda x: x + 1, array, array + 1),
        (lambda x: calor.permute_dims(x, order), array, array.transpose(order)),
        (lambda x: x[turned], array, array[turned]),
        (lambda x: calor.max(x, axis=odd), array, array.max(odd)),
        (lambda x: calor.broadcast_to(x, (2,) * rank), array, np.broadcast_to(array, (2,) * rank)),
    ]


CHECKS = contract.checks
