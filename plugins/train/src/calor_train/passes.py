"""A pass over a loader, and a model in evaluation: what the learner's passes share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import calor
from calor import Tensor, tree
from calor.errors import ArgumentError
from calor_nn.modes import kept_modes
from calor_nn.module import Module
from calor_train.data.loader import BatchIterator
from calor_train.metrics import Metric


@contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """Let a model evaluate within a `with` block: no dropout, no gradients."""
    with kept_modes(model), calor.no_grad():
        model.eval()
        yield


def fresh(metric: Metric) -> Metric:
    """Return a metric like another, with tensors of its own."""
    copied: Metric = tree.map(lambda x: calor.zeros_like(x), metric)
    return copied


@contextmanager
def one_pass(loader: Iterable[Any]) -> Iterator[Iterator[Any]]:
    """Give one pass over a loader, whose workers are stopped however it ends.

    Host arrays in the batches become tensors on the current device.
    """
    batches = iter(loader)
    try:
        yield map(_on_device, batches)
    finally:
        if isinstance(batches, BatchIterator):
            batches.close()


def _on_device(batch: Any) -> Any:
    return tree.map(lambda x: calor.asarray(x) if _is_array(x) else x, batch)


def _is_array(x: Any) -> bool:
    """Return whether an object is an array of the host or of another library."""
    if isinstance(x, Tensor):
        return False
    return isinstance(x, np.ndarray | np.generic) or hasattr(type(x), "__dlpack__")


def batches_of(inputs: Any) -> Any:
    """Return a loader of inputs to predict from; a tensor or an array is one batch."""
    return [inputs] if isinstance(inputs, Tensor) or _is_array(inputs) else inputs


def check_repeatable(loader: Any, what: str, epochs: int) -> None:
    """Raise ArgumentError for batches that can be read once where several epochs need them."""
    if epochs > 1 and isinstance(loader, Iterator):
        raise ArgumentError(
            f"{what} is a {type(loader).__name__}, which gives its batches once, and there are "
            f"{epochs} epochs; pass a DataLoader, a list, or an object with __iter__"
        )


def length_of(loader: Any) -> int | None:
    """Return how many batches a loader gives, None when it cannot say."""
    try:
        return len(loader)
    except TypeError:
        return None
