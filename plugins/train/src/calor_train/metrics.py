"""Metrics: numbers about outputs and targets, added up batch by batch.

Requirements: a metric is updated inside the jitted step, so its sums are tensors that exist from
construction on, and no value is read before ``compute()``. Counts are integers: a
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
    """Something that is measured over an epoch.

    A subclass makes its tensors with `add_state` in its constructor, and writes `update` and
    `compute`. `percent` says whether a screen shows the value as a percentage.

    Parameters
    ----------
    name : str
        Its key in the history.

    Examples
    --------
    >>> import calor
    >>> from calor_train import Metric
    >>> class Largest(Metric):
    ...     def __init__(self):
    ...         super().__init__("largest")
    ...         self.add_state("value", dtype=calor.float32)
    ...     def update(self, outputs, targets, loss):
    ...         self.add("value", calor.maximum(calor.max(outputs) - self.state["value"], 0.0))
    ...     def compute(self):
    ...         return self.state["value"].item()
    >>> largest = Largest()
    >>> largest.update(calor.asarray([1.0, 3.0]), None, None)
    >>> largest.compute()
    3.0
    """

    percent = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: dict[str, Tensor] = {}

    def add_state(self, name: str, shape: tuple[int, ...] = (), dtype: Any = calor.int32) -> None:
        """Make a state tensor of zeros, found in `self.state`.

        Parameters
        ----------
        name : str
            Its name.
        shape : tuple of int
            Its shape.
        dtype : DType or str
            Its dtype; integers for counts, as a float32 sum of ones stops growing at 2²⁴.
        """
        self.state = {**self.state, name: calor.zeros(shape, dtype=dtype)}

    def add(self, name: str, amount: Any) -> None:
        """Add to a state tensor, in its dtype.

        Parameters
        ----------
        name : str
            The name of the state tensor.
        amount : Tensor or number
            What is added; a shape that broadcasts to that of the state.
        """
        held = self.state[name]
        if isinstance(amount, Tensor):
            amount = amount.astype(held.dtype)
        assign(held, held + amount)

    @abstractmethod
    def update(self, outputs: Any, targets: Any, loss: Tensor) -> None:
        """Add one batch.

        Parameters
        ----------
        outputs : Any
            The model's outputs.
        targets : Any
            The targets of the batch.
        loss : Tensor
            The batch's mean loss, shape ().
        """

    @abstractmethod
    def compute(self) -> Any:
        """Return the value over all batches since `reset`.

        Returns
        -------
        float or ndarray
            The value on the host.
        """

    def reset(self) -> None:
        """Set all state to zeros."""
        for held in self.state.values():
            assign(held, calor.zeros_like(held))

    def to(self, device: Any) -> None:
        """Move the state to a device.

        Parameters
        ----------
        device : Device or str
            The device.
        """
        self.state = {name: held.to(device=device) for name, held in self.state.items()}

    def _ratio(self, above: str, below: str) -> float:
        count = float(self.state[below])
        return float(self.state[above]) / count if count else float("nan")


class Mean(Metric):
    """The mean over all samples of a function that returns the mean over a batch.

    Parameters
    ----------
    name : str
        Its key in the history.
    function : callable
        A function `f(outputs, targets)` that returns a tensor of shape ().

    Examples
    --------
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
        """Add one batch.

        Parameters
        ----------
        outputs : Any
            The model's outputs.
        targets : Any
            The targets of the batch.
        loss : Tensor
            The batch's mean loss, shape ().

        Raises
        ------
        ArgumentError
            If the targets hold no tensor with an axis of samples.
        """
        self._include(self.function(outputs, targets), batch_length(targets))

    def _include(self, mean: Tensor, count: int) -> None:
        self.add("total", mean.astype(calor.float32) * count)
        self.add("count", count)

    def compute(self) -> float:
        """Return the mean over all samples.

        Returns
        -------
        float
            The mean, NaN before the first sample.
        """
        return self._ratio("total", "count")


class Loss(Mean):
    """The mean loss over all samples; every learner has one.

    Parameters
    ----------
    name : str
        Its key in the history.

    Examples
    --------
    >>> import calor
    >>> from calor_train import Loss
    >>> loss = Loss()
    >>> loss.update(None, calor.zeros(2), calor.asarray(0.5))
    >>> loss.compute()
    0.5
    """

    def __init__(self, name: str = "loss") -> None:
        super().__init__(name, lambda outputs, targets: outputs)

    def update(self, outputs: Any, targets: Any, loss: Tensor) -> None:
        """Add one batch.

        Parameters
        ----------
        outputs : Any
            The model's outputs.
        targets : Any
            The targets of the batch.
        loss : Tensor
            The batch's mean loss, shape ().

        Raises
        ------
        ArgumentError
            If the targets hold no tensor with an axis of samples.
        """
        self._include(loss, batch_length(targets))


class RunningMean(Metric):
    """The mean loss, or mean of a function, with weights that fade for older batches.

    Each batch weighs `decay` times as much as the next; the weights add up to 1 from the first
    batch on.

    Parameters
    ----------
    name : str
        Its key in the history.
    function : callable, optional
        A function `f(outputs, targets)` that returns a tensor of shape (); the loss if left out.
    decay : float
        How much the weight of a batch falls with each further batch, in [0, 1).

    Raises
    ------
    ArgumentError
        If `decay` is outside [0, 1).

    Examples
    --------
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
            raise ArgumentError(f"decay must be at least 0 and below 1, not {decay}")
        super().__init__(name)
        self.function = function
        self.decay = decay
        self.add_state("total", dtype=calor.float32)
        self.add_state("weight", dtype=calor.float32)

    def update(self, outputs: Any, targets: Any, loss: Tensor) -> None:
        new = loss if self.function is None else self.function(outputs, targets)
        total, weight = self.state["total"], self.state["weight"]
        rest = 1.0 - self.decay
        assign(total, total * self.decay + new.astype(calor.float32) * rest)
        assign(weight, weight * self.decay + rest)

    def compute(self) -> float:
        """Return the weighted mean.

        Returns
        -------
        float
            The mean, NaN before the first batch.
        """
        return self._ratio("total", "weight")


class Accuracy(Metric):
    """The share of samples whose class is predicted correctly.

    Outputs with one axis more than the targets hold a score for each class along axis 1, and the
    largest one wins. Outputs of the targets' shape are scores of one class, which is chosen if they
    exceed `threshold`.

    Parameters
    ----------
    name : str
        Its key in the history.
    threshold : float
        For scores of one class: 0 for logits, 0.5 for probabilities.

    Examples
    --------
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
        """Add one batch.

        Parameters
        ----------
        outputs : Tensor
            Scores, shape (N, C, *S), or (N, *S) for one class.
        targets : Tensor
            Class numbers, integers of shape (N, *S); 0 or 1 for one class.
        loss : Tensor
            Not used.

        Raises
        ------
        ShapeError
            If the shapes do not fit.
        """
        if outputs.shape == targets.shape:
            right = (outputs > self.threshold) == (targets > 0.5)
        else:
            _check_classes(outputs, targets)
            right = calor.argmax(outputs, axis=1) == targets
        self.add("right", calor.sum(right.astype(calor.int32)))
        self.add("count", targets.size)

    def compute(self) -> float:
        """Return the share of correct predictions.

        Returns
        -------
        float
            The share in [0, 1], NaN before the first batch.
        """
        return self._ratio("right", "count")


class TopK(Metric):
    """The share of samples whose class is among those with the k largest scores.

    A class that ties with the k-th counts as among them.

    Parameters
    ----------
    k : int
        How many classes; at least 1.
    name : str, optional
        Its key in the history; "topK" with the number if left out.

    Raises
    ------
    ArgumentError
        If `k` is below 1.

    Examples
    --------
    >>> import calor
    >>> from calor_train import TopK
    >>> top = TopK(2)
    >>> top.update(calor.asarray([[3.0, 2.0, 1.0]]), calor.asarray([1]), calor.asarray(0.0))
    >>> top.name, top.compute()
    ('top2', 1.0)
    """

    percent = True

    def __init__(self, k: int = 5, name: str | None = None) -> None:
        super().__init__(f"top{k}" if name is None else name)
        self.k = k
        self.add_state("right")
        self.add_state("count")

    def update(self, outputs: Any, targets: Any, loss: Tensor) -> None:
        """Add one batch.

        Parameters
        ----------
        outputs : Tensor
            Scores, shape (N, C, *S).
        targets : Tensor
            Class numbers, integers of shape (N, *S).
        loss : Tensor
            Not used.

        Raises
        ------
        ShapeError
            If the shapes do not fit.
        """
        _check_classes(outputs, targets)
        own = calor.take_along_axis(outputs, calor.expand_dims(targets, axis=1), axis=1)
        better = calor.sum((outputs > own).astype(calor.int32), axis=1)
        # Ranked by comparison: a NaN score compares false with everything, so it is never right.
        known = calor.squeeze(own == own, axis=1)
        right = calor.logical_and(better < self.k, known)
        self.add("right", calor.sum(right.astype(calor.int32)))
        self.add("count", targets.size)

    def compute(self) -> float:
        """Return the share of samples.

        Returns
        -------
        float
            The share in [0, 1], NaN before the first batch.
        """
        return self._ratio("right", "count")


class ConfusionMatrix(Metric):
    """How often each class was predicted for each: rows are true classes, columns predicted ones.

    Parameters
    ----------
    classes : int
        The number C of classes; at least 1.
    name : str
        Its name among the metrics.

    Raises
    ------
    ArgumentError
        If `classes` is below 1.

    Examples
    --------
    >>> import calor
    >>> from calor_train import ConfusionMatrix
    >>> confusion = ConfusionMatrix(2)
    >>> scores = calor.asarray([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    >>> confusion.update(scores, calor.asarray([1, 1, 0]), calor.asarray(0.0))
    >>> confusion.compute().tolist()
    [[0, 1], [1, 1]]
    """

    def __init__(self, classes: int, name: str = "confusion") -> None:
        super().__init__(name)
        self.classes = classes
        self.add_state("counts", (classes, classes))

    def update(self, outputs: Any, targets: Any, loss: Tensor) -> None:
        """Add one batch.

        Parameters
        ----------
        outputs : Tensor
            Scores, shape (N, C, *S).
        targets : Tensor
            Class numbers, integers of shape (N, *S).
        loss : Tensor
            Not used.

        Raises
        ------
        ShapeError
            If the shapes do not fit, or the outputs have another number of classes.
        """
        _check_classes(outputs, targets)
        if outputs.shape[1] != self.classes:
            raise ShapeError(
                f"the outputs have {outputs.shape[1]} classes, the confusion matrix "
                f"{self.classes}; "
                f"make it with ConfusionMatrix({outputs.shape[1]})"
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
        """Return the counts.

        Returns
        -------
        ndarray
            Counts, int32 (C, C).
        """
        return self.state["counts"].numpy(copy=True)


def batch_length(batch: Any) -> int:
    """Return how many samples a batch has: the length of its first tensor's first axis."""
    for leaf in calor.tree.leaves(batch):
        if isinstance(leaf, Tensor) and leaf.ndim:
            return leaf.shape[0]
    raise ArgumentError("the batch must hold a tensor of shape (N, ...), whose N is its size")


def _check_classes(outputs: Any, targets: Any) -> None:
    expected = outputs.shape[:1] + outputs.shape[2:]
    if outputs.ndim < 2 or targets.shape != expected:
        raise ShapeError(
            f"outputs of shape {outputs.shape} have their classes along axis 1; the targets "
            f"should have shape {expected}, not {targets.shape}"
        )
