"""A learning rate that falls when a number stops improving.

Requirements: it depends on what is measured and not on the step alone, so it is no
:class:`Schedule`. It is called with the number in a loop of one's own, and is a callback of a
learner, whose checkpoints hold its state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from calor.errors import ArgumentError
from calor_train.callbacks import Callback, Direction
from calor_train.optimizers import Optimizer
from calor_train.run import Run


class ReduceLROnPlateau(Callback):
    """Multiplies the learning rate by a factor when a number has stopped improving.

    Names, defaults and rules are those of torch.optim.lr_scheduler.ReduceLROnPlateau. In a loop of
    your own call `step(number)` after each epoch; in a learner pass it as a callback, which reads
    the number `monitor` of the history.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer, whose groups have their learning rates changed.
    mode : {"min", "max"}
        Whether the number should fall or rise.
    factor : float
        What the learning rate is multiplied by, in (0, 1).
    patience : int
        How many epochs without an improvement are borne; the next one reduces the rate.
    threshold : float
        The least change that counts as an improvement.
    threshold_mode : {"rel", "abs"}
        Whether `threshold` is a share of the best number, or in its unit.
    cooldown : int
        How many epochs after a reduction are not counted.
    min_lr : float or sequence of float
        The least learning rate, of all groups or of each.
    eps : float
        Smaller changes of the learning rate are not made.
    monitor : str
        The number's name in the history of a learner.

    Raises
    ------
    ArgumentError
        If a number is out of its range, a mode is unknown, or `min_lr` is of another number of
        groups.

    Examples
    --------
    >>> import calor
    >>> from calor_train import SGD, ReduceLROnPlateau
    >>> optimizer = SGD([calor.ones(2, requires_grad=True)], lr=1.0)
    >>> plateau = ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> rates = []
    >>> for loss in [3.0, 2.0, 2.0, 2.0, 2.0, 2.0]:
    ...     plateau.step(loss)
    ...     rates.append(optimizer.lr)
    >>> rates
    [1.0, 1.0, 1.0, 0.5, 0.5, 0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Direction = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
        *,
        monitor: str = "valid_loss",
    ) -> None:
        if not 0 < factor < 1:
            raise ArgumentError(f"factor must be above 0 and below 1, not {factor!r}")
        groups = len(optimizer.param_groups)
        least = [min_lr] * groups if isinstance(min_lr, (int, float)) else list(min_lr)
        if len(least) != groups:
            raise ArgumentError(
                f"min_lr has {len(least)} values, the optimizer {groups} parameter groups"
            )
        self.optimizer = optimizer
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.min_lrs = [float(rate) for rate in least]
        self.eps = eps
        self.monitor = monitor
        self._forget()

    def _forget(self) -> None:
        self.best: float | None = None
        self.bad_epochs = 0
        self.cooling = 0

    def improves(self, value: float) -> bool:
        """Return whether a number beats the best one by more than the threshold.

        Parameters
        ----------
        value : float
            The number; NaN is no improvement.

        Returns
        -------
        bool
            Whether it does.
        """
        if math.isnan(value) or self.best is None:
            return not math.isnan(value)
        sign = 1.0 if self.mode == "max" else -1.0
        if self.threshold_mode == "rel":
            return sign * value > sign * self.best * (1.0 + sign * self.threshold)
        return sign * value > sign * self.best + self.threshold

    def step(self, metrics: Any) -> None:
        """Take the number of an epoch, and reduce the learning rate if the patience is used up.

        Parameters
        ----------
        metrics : float or Tensor
            The number.
        """
        value = float(metrics)
        if self.improves(value):
            self.best = value
            self.bad_epochs = 0
        else:
            self.bad_epochs += 1
        if self.cooling > 0:
            self.cooling -= 1
            self.bad_epochs = 0
        if self.bad_epochs > self.patience:
            self._reduce()
            self.cooling = self.cooldown
            self.bad_epochs = 0

    def _reduce(self) -> None:
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            before = float(group.lr)
            after = max(before * self.factor, least)
            if before - after > self.eps:
                group.lr = after

    def on_fit_begin(self, learner: Run) -> None:
        """Forget an earlier run, unless that one is continued.

        Parameters
        ----------
        learner : Learner
            The learner that trains.

        Raises
        ------
        ArgumentError
            If the learner has a schedule for the learning rate, which would undo each reduction.
        """
        if learner.schedule is not None and "lr" in learner.schedule.schedules:
            raise ArgumentError(
                "the learner's schedule sets lr, and would undo each reduction by "
                "ReduceLROnPlateau; leave one of them out"
            )
        if learner.epoch == learner.steps == 0:
            self._forget()

    def on_epoch_end(self, learner: Run) -> None:
        """Make the step of the epoch with its number of the history.

        Parameters
        ----------
        learner : Learner
            The learner that trains.

        Raises
        ------
        ArgumentError
            If the history does not have the number.
        """
        row = learner.history[-1]
        if self.monitor not in row:
            raise ArgumentError(
                f"the history has no {self.monitor!r} to monitor; choose one of {', '.join(row)}"
            )
        self.step(row[self.monitor])

    def state_dict(self) -> dict[str, Any]:
        """Return the best number and the counts; the optimizer's state holds the learning rates.

        Returns
        -------
        dict of str to Any
            The keys "best", "bad_epochs" and "cooling".
        """
        return {"best": self.best, "bad_epochs": self.bad_epochs, "cooling": self.cooling}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the best number and the counts.

        Parameters
        ----------
        state_dict : mapping of str to Any
            What `state_dict` returned.
        """
        self.best = state_dict["best"]
        self.bad_epochs = int(state_dict["bad_epochs"])
        self.cooling = int(state_dict["cooling"])
