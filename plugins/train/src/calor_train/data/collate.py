"""From samples to a batch on the host, and from the host to a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import calor
from calor import Tensor, tree
from calor.errors import ArgumentError, ShapeError


def default_collate(samples: Sequence[Any]) -> Any:
    """Return a batch of samples, with corresponding parts stacked along a new first axis.

    Parameters
    ----------
    samples : sequence
        Arrays, tensors, numbers, or tuples, lists and mappings of these, all of one structure.

    Returns
    -------
    Any
        The structure of a sample, with arrays of shape (N, *S) on the host. Arrays keep their
        dtype; Python floats become float32, integers int64, complex numbers complex64. Texts and
        anything else become lists.

    Raises
    ------
    ShapeError
        If corresponding arrays differ in shape.
    ArgumentError
        If corresponding tuples or lists differ in length.

    Examples
    --------
    >>> from calor_train import default_collate
    >>> default_collate([(0.5, 1), (1.5, 2)])
    (array([0.5, 1.5], dtype=float32), array([1, 2]))
    """
    first = samples[0]
    if isinstance(first, Tensor):
        return _stack([x.numpy() for x in samples])
    if isinstance(first, np.ndarray | np.generic):
        return _stack([np.asarray(x) for x in samples])
    if isinstance(first, bool):
        return np.asarray(samples, np.bool_)
    if isinstance(first, int):
        return np.asarray(samples, np.int64)
    if isinstance(first, float):
        return np.asarray(samples, np.float32)
    if isinstance(first, complex):
        return np.asarray(samples, np.complex64)
    if isinstance(first, Mapping):
        return {key: default_collate([sample[key] for sample in samples]) for key in first}
    if isinstance(first, tuple | list):
        if len({len(sample) for sample in samples}) != 1:
            raise ArgumentError("samples differ in length; pass a collate= function that pads them")
        parts = [default_collate(part) for part in zip(*samples, strict=True)]
        if hasattr(first, "_fields"):
            return type(first)(*parts)
        return tuple(parts) if isinstance(first, tuple) else parts
    return list(samples)


def _stack(arrays: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    shapes = {x.shape for x in arrays}
    if len(shapes) > 1:
        few = " and ".join(map(str, sorted(shapes)[:3]))
        raise ShapeError(
            f"samples of one batch have shapes {few}; bring them to one shape, "
            f"or pass a collate function that pads them"
        )
    return np.stack(arrays)


def to_tensors(batch: Any, device: Any) -> Any:
    """Return the batch with its arrays and tensors as tensors on a device; the rest stays."""

    def move(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return leaf.to(device=device)
        if isinstance(leaf, np.ndarray):
            return calor.asarray(leaf, device=device)
        return leaf

    return tree.map(move, batch)
