"""A training run, as callbacks, displays and checkpoints see the learner that makes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Literal

from calor_nn.module import Module
from calor_train.data import DataLoader
from calor_train.metrics import Metric
from calor_train.optimizers import Optimizer
from calor_train.scaling import GradScaler
from calor_train.scheduler import Scheduler

Row = dict[str, Any]


class Run(ABC):
    """The state of a training run; :class:`Learner` is the class that has one."""

    model: Module
    optimizer: Optimizer
    loss: Any
    schedule: Scheduler | None
    callbacks: list[Any]
    metrics: list[Metric]
    loaders: dict[str, DataLoader]
    device: Any
    scaler: GradScaler | None
    # Progress, which checkpoints hold.
    epoch: int
    steps: int
    batch: int
    rate: float
    phase: Literal["train", "evaluate"]
    samples: int
    history: list[Row]
    # The present call of ``fit``.
    epochs: int
    completed: bool
    stop_reason: str | None
    validates: bool
    train_batches: int | None
    valid_batches: int | None
    evaluated_batches: int

    @property
    @abstractmethod
    def last_loss(self) -> float:
        """The loss of the last step."""

    @abstractmethod
    def stop(self, reason: str) -> None:
        """End the run after the present step.

        Parameters
        ----------
        reason : str
            Why, as ``stop_reason`` keeps it and the display shows it.
        """

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write a checkpoint.

        Parameters
        ----------
        path : path-like
            The file, which is replaced in one step.
        """

    @abstractmethod
    def outside_state(self) -> dict[str, Any]:
        """Return the state outside of tensors: random numbers and positions in the data."""
