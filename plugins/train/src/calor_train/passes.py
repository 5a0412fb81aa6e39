"""A pass over a loader, and a model in evaluation: what the learner's passes share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import calor
from calor import tree
from calor_nn.module import Module
from calor_train.data.loader import BatchIterator
from calor_train.metrics import Metric


class Evaluating:
    """Context in which a model evaluates: no dropout, no gradients."""

    def __init__(self, model: Module) -> None:
        self.model = model
        self.grads = calor.no_grad()

    def __enter__(self) -> None:
        self.before = self.model.training
        self.model.eval()
        self.grads.__enter__()

    def __exit__(self, *error: object) -> None:
        self.grads.__exit__(*error)
        self.model.train(self.before)


def fresh(metric: Metric) -> Metric:
    """Return a metric like another, with tensors of its own."""
    copied: Metric = tree.map(lambda x: calor.zeros_like(x), metric)
    return copied


@contextmanager
def one_pass(loader: Iterable[Any]) -> Iterator[Iterator[Any]]:
    """Give one pass over a loader, whose workers are stopped however it ends."""
    batches = iter(loader)
    try:
        yield batches
    finally:
        if isinstance(batches, BatchIterator):
            batches.close()


def length_of(loader: Any) -> int | None:
    """Return how many batches a loader gives, None when it cannot say."""
    try:
        return len(loader)
    except TypeError:
        return None
