"""Metrics: numbers about outputs and targets, added up batch by batch.

Requirements: a metric is updated inside the jitted step, so what it adds up is held in tensors that
exist from construction on, and nothing is looked at before ``compute()``. Counts are integers: a
float32 sum of ones stops growing at 2²⁴.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import calor
from calor import Tensor
from calor.errors import ArgumentError, ShapeError
from calor.transforms.state import Stateful
from calor_train.optimizers.group import assign


class Metric(Stateful, ABC):
    """Something measured over an epoch.

    A subclass makes its tensors with ``add_state`` in its constructor, and writes ``update`` and
    ``compute``. ``name`` is its key in the history; ``percent`` says how a screen shows it.
    """

    percent = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: dict[str, Tensor] = {}

    def add_state(self, name: str, shape: tuple[int, ...] = (), dtype: Any = calor.int32) -> None:
        """Make a state tensor of zeros, found in ``self.state``."""
        self.state = {**self.state, name: calor.zeros(shape, dtype=dtype)}

    def add(self, name: str, amount: Any) -> None:
        """Add to a state tensor, in its dtype."""
        held = self.state[name]
        if isinstance(amount, Tensor):
            amount = amount.astype(held.dtype)
        assign(held, held + amount)

    @abstractmethod
    def update(self, outputs: Any, targets: Any, loss: Tensor) -> None:
        """Take in one batch: the model's outputs, the targets, and the batch's mean loss."""

    @abstractmethod
    def compute(self) -> Any:
        """Return the value over all batches since ``reset``: a float or a host array."""

    def reset(self) -> None:
        """Start again from nothing."""
        for held in self.state.values():
            assign(held, calor.zeros_like(held))

    def to(self, device: Any) -> None:
        """Move the state to a device."""
        self.state = {name: held.to(device=device) for name, held in self.state.items()}

    def _ratio(self, above: str, below: str) -> float:
        count = float(self.state[below])
        return float(self.state[above]) / count if count else float("nan")


class Mean(Metric):
    """The mean over all samples of ``function(outputs, targets)``, which is a mean over a batch.

    >>> import calor
    >>> from calor_train import Mean
    >>> error = Mean("error", lambda y, t: calor.mean(calor.abs(y - t)))
    >>> error.update(calor.asarray([1.0, 2.0]), calor.asarray([0.0, 0.0]), calor.asarray(0.0))
    >>> error.compute()
    1.5
    """

    def __init__(self, name: str, function: Callable[[Any, Any], Tensor]) -> None:
        super().__init__(name)
        self.function = function
        self.add_state("total", dtype=calor.float32)
        self.add_state("count")

    def update(self, outputs: Any, targets: Any, loss: Tensor) -> None:
        """Take in one batch."""
        self._include(self.function(outputs, targets), batch_length(targets))

    def _include(self, mean: Tensor, count: int) -> None:
        self.add("total", mean.astype(calor.float32) * count)
        self.add("count", count)

    def compute(self) -> float:
        """Return the mean over all samples, NaN before the first."""
        return self._ratio("total", "count")


class Loss(Mean):
    """The mean loss over all samples; every learner has one."""

    def __init__(self, name: str = "loss") -> None:
        super().__init__(name, lambda outputs, targets: outputs)

    def update(self, outputs: Any, targets: Any, loss: Tensor) -> None:
        """Take in one batch."""
        self._include(loss, batch_length(targets))


class RunningMean(Metric):
    """The mean loss, or of ``function(outputs, targets)``, with older batches fading out.

    Each batch weighs ``decay`` times as much as the next; the weights add up to 1 from the start.

    >>> import calor
    >>> from calor_train import RunningMean
    >>> running = RunningMean("recent loss", decay=0.5)
    >>> for loss in (4.0, 1.0):
    ...     running.update(None, None, calor.asarray(loss))
    >>> running.compute()
    2.0
    """

    def __init__(
        self,
        name: str,
        function: Callable[[Any, Any], Tensor] | None = None,
        *,
        decay: float = 0.98,
    ) -> None:
        if not 0 <= decay < 1:
            raise ArgumentError(f"decay is at least 0 and below 1, not {decay}")
        super().__init__(name)
        self.function = function
        self.decay = decay
        self.add_state("total", dtype=calor.float32)
        self.add_state("weight", dtype=calor.float32)

    def update(self, outputs: Any, targets: Any, loss: Tensor) -> None:
        """Take in one batch."""
        new = loss if self.function is None else self.function(outputs, targets)
        total, weight = self.state["total"], self.state["weight"]
        rest = 1.0 - self.decay
        assign(total, total * self.decay + new.astype(calor.float32) * rest)
        assign(weight, weight * self.decay + rest)

    def compute(self) -> float:
        """Return the weighted mean, NaN before the first batch."""
        return self._ratio("total", "weight")


class Accuracy(Metric):
    """The share of samples whose class is right.

    Outputs with one axis more than the targets hold a score for each class along axis 1, and the
    largest wins; outputs of the targets' shape are scores of one class, which is chosen when they
    are above ``threshold`` (0 for logits, 0.5 for probabilities).

    >>> import calor
    >>> from calor_train import Accuracy
    >>> accuracy = Accuracy()
    >>> scores = calor.asarray([[0.1, 0.9], [0.8, 0.2]])
    >>> accuracy.update(scores, calor.asarray([1, 1]), calor.asarray(0.0))
    >>> accuracy.compute()
    0.5
    """

    percent = True

    def __init__(self, name: str = "accuracy", *, threshold: float = 0.0) -> None:
        super().__init__(name)
        self.threshold = threshold
        self.add_state("right")
        self.add_state("count")

    def update(self, outputs: Any, targets: Any, loss: Tensor) -> None:
        """Take in one batch."""
        if outputs.shape == targets.shape:
            right = (outputs > self.threshold) == (targets > 0.5)
        else:
            _check_classes(outputs, targets)
            right = calor.argmax(outputs, axis=1) == targets
        self.add("right", calor.sum(right.astype(calor.int32)))
        self.add("count", targets.size)

    def compute(self) -> float:
        """Return the share, NaN before the first batch."""
        return self._ratio("right", "count")


class TopK(Metric):
    """The share of samples whose class is among the ``k`` with the largest scores, along axis 1.

    A class as good as the k-th counts as among them.

    >>> import calor
    >>> from calor_train import TopK
    >>> top = TopK(2)
    >>> top.update(calor.asarray([[3.0, 2.0, 1.0]]), calor.asarray([1]), calor.asarray(0.0))
    >>> top.name, top.compute()
    ('top2', 1.0)
    """

    percent = True

    def __init__(self, k: int = 5, name: str | None = None) -> None:
        if k < 1:
            raise ArgumentError(f"k is at least 1, not {k}")
        super().__init__(f"top{k}" if name is None else name)
        self.k = k
        self.add_state("right")
        self.add_state("count")

    def update(self, outputs: Any, targets: Any, loss: Tensor) -> None:
        """Take in one batch."""
        _check_classes(outputs, targets)
        own = calor.take_along_axis(outputs, calor.expand_dims(targets, axis=1), axis=1)
        better = calor.sum((outputs > own).astype(calor.int32), axis=1)
        # Ranked by comparison: NaN scores are above nothing and below nothing, so never right.
        known = calor.squeeze(own == own, axis=1)
        right = calor.logical_and(better < self.k, known)
        self.add("right", calor.sum(right.astype(calor.int32)))
        self.add("count", targets.size)

    def compute(self) -> float:
        """Return the share, NaN before the first batch."""
        return self._ratio("right", "count")


class ConfusionMatrix(Metric):
    """How often each class was taken for each: rows are the true classes, columns the predicted.

    >>> import calor
    >>> from calor_train import ConfusionMatrix
    >>> confusion = ConfusionMatrix(2)
    >>> scores = calor.asarray([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    >>> confusion.update(scores, calor.asarray([1, 1, 0]), calor.asarray(0.0))
    >>> confusion.compute().tolist()
    [[0, 1], [1, 1]]
    """

    def __init__(self, classes: int, name: str = "confusion") -> None:
        if classes < 1:
            raise ArgumentError(f"classes is at least 1, not {classes}")
        super().__init__(name)
        self.classes = classes
        self.add_state("counts", (classes, classes))

    def update(self, outputs: Any, targets: Any, loss: Tensor) -> None:
        """Take in one batch."""
        _check_classes(outputs, targets)
        if outputs.shape[1] != self.classes:
            raise ShapeError(
                f"the outputs have {outputs.shape[1]} classes, the confusion matrix {self.classes}"
            )
        numbers = calor.arange(self.classes, device=targets.device)
        true = self._one_hot(targets, numbers)
        predicted = self._one_hot(calor.argmax(outputs, axis=1), numbers)
        # Exact in float32: a batch has fewer than 2²⁴ samples.
        self.add("counts", calor.matmul(calor.permute_dims(true, (1, 0)), predicted))

    def _one_hot(self, classes: Any, numbers: Tensor) -> Tensor:
        flat = calor.reshape(classes, (-1, 1))
        return (flat == numbers).astype(calor.float32)

    def compute(self) -> npt.NDArray[np.int32]:
        """Return the counts, int32[classes, classes]."""
        return self.state["counts"].numpy(copy=True)


def batch_length(batch: Any) -> int:
    """Return how many samples a batch has: the length of its first tensor's first axis."""
    for leaf in calor.tree.leaves(batch):
        if isinstance(leaf, Tensor) and leaf.ndim:
            return leaf.shape[0]
    raise ArgumentError("the batch holds no tensor with a samples axis, so its size is not known")


def _check_classes(outputs: Any, targets: Any) -> None:
    expected = outputs.shape[:1] + outputs.shape[2:]
    if outputs.ndim < 2 or targets.shape != expected:
        raise ShapeError(
            f"outputs of shape {outputs.shape} have their classes along axis 1; the targets "
            f"should have shape {expected}, not {targets.shape}"
        )
