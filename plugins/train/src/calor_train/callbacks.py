"""Callbacks: what happens around the steps of a training run.

A learner calls every callback at the times named by its methods, in the order of ``priority`` and
then of the list, so a checkpoint sees what the others have decided.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from calor.errors import ArgumentError
from calor_train.run import Run

Direction = Literal["min", "max"]


class Callback:
    """The base of callbacks; every method does nothing, so override those that are needed.

    A learner calls each method with itself. Callbacks run in the order of `priority`, then of the
    list. What they read most: `learner.epoch` (epochs completed), `steps` (optimizer steps made),
    `history` (a row of numbers for each epoch), `model`, `optimizer` and `metrics`;
    `learner.stop(reason)` ends the run after the present step.

    Examples
    --------
    >>> from calor_train import Callback
    >>> class Print(Callback):
    ...     def on_epoch_end(self, learner):
    ...         print(learner.history[-1]["loss"])
    """

    priority: ClassVar[int] = 0

    def on_fit_begin(self, learner: Run) -> None:
        """Act once before the first step, after a checkpoint was loaded if there is one.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """

    def on_epoch_begin(self, learner: Run) -> None:
        """Act before the first step of each epoch, and when an epoch is continued.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """

    def on_step_end(self, learner: Run) -> None:
        """Act after each optimizer step; `learner.last_loss` waits for the device.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """

    def on_evaluate_begin(self, learner: Run) -> None:
        """Act before each pass over validation data, within `fit` and `evaluate`.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """

    def on_evaluate_step(self, learner: Run) -> None:
        """Act after each batch of validation data.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """

    def on_evaluate_end(self, learner: Run) -> None:
        """Act after each pass over validation data.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """

    def on_epoch_end(self, learner: Run) -> None:
        """Act when an epoch is complete; `learner.history[-1]` holds its numbers.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """

    def on_interrupt(self, learner: Run) -> None:
        """Act when Ctrl-C stops the run, between two steps; `on_fit_end` follows.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """

    def on_fit_end(self, learner: Run) -> None:
        """Act at the end of the run, also if it ends by an error.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint should hold of this callback.

        Returns
        -------
        dict of str to Any
            Numbers, texts, lists and dictionaries of these.
        """
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned when the checkpoint was made.

        Parameters
        ----------
        state_dict : mapping of str to Any
            The state.
        """


class Monitor:
    """Decides whether a number of the history is the best so far."""

    def __init__(self, name: str, direction: Direction | None, min_delta: float = 0.0) -> None:
        smaller = "loss" in name or "error" in name
        self.name = name
        self.direction: Direction = direction or ("min" if smaller else "max")
        self.min_delta = min_delta
        self.best: float | None = None

    def improved(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row beats the best one by more than ``min_delta``; keep it if so."""
        if self.name not in row:
            known = ", ".join(row)
            raise ArgumentError(
                f"the history has no {self.name!r} to monitor; choose one of {known}"
            )
        value = float(row[self.name])
        if math.isnan(value):
            return False
        sign = 1.0 if self.direction == "max" else -1.0
        if self.best is not None and not sign * (value - self.best) > self.min_delta:
            return False
        self.best = value
        return True


class EarlyStopping(Callback):
    """Ends the run when a number of the history has not improved for some epochs.

    Parameters
    ----------
    monitor : str
        The number's name in the history.
    patience : int
        How many epochs without an improvement end the run; at least 1.
    min_delta : float
        The least change that counts as an improvement, in the unit of the number.
    direction : {"min", "max"}, optional
        Whether the number should fall or rise. If left out, names with "loss" or "error" should
        fall and all others rise.

    Raises
    ------
    ArgumentError
        If a number is out of its range, or `direction` is unknown.

    Examples
    --------
    >>> from calor_train import EarlyStopping
    >>> EarlyStopping("valid_accuracy", patience=3).monitor.direction
    'max'
    """

    def __init__(
        self,
        monitor: str = "valid_loss",
        patience: int = 5,
        *,
        min_delta: float = 0.0,
        direction: Direction | None = None,
    ) -> None:
        self.monitor = Monitor(monitor, direction, min_delta)
        self.patience = patience
        self.waited = 0

    def on_fit_begin(self, learner: Run) -> None:
        """Forget an earlier run, unless that one is continued.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """
        if learner.epoch == learner.steps == 0:
            self.monitor.best, self.waited = None, 0

    def on_epoch_end(self, learner: Run) -> None:
        """Compare the epoch with the best one, and stop the run once the patience is used up.

        Parameters
        ----------
        learner : Learner
            The learner that trains.

        Raises
        ------
        ArgumentError
            If the history does not have the number.
        """
        if self.monitor.improved(learner.history[-1]):
            self.waited = 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            best = "a number" if self.monitor.best is None else f"{self.monitor.best:.6g}"
            learner.stop(f"{self.monitor.name} has not improved on {best} for {self.waited} epochs")

    def state_dict(self) -> dict[str, Any]:
        """Return the best value and the number of epochs since.

        Returns
        -------
        dict of str to Any
            The keys "best" and "waited".
        """
        return {"best": self.monitor.best, "waited": self.waited}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the best value and the number of epochs since.

        Parameters
        ----------
        state_dict : mapping of str to Any
            What `state_dict` returned.
        """
        self.monitor.best = state_dict["best"]
        self.waited = int(state_dict["waited"])


class Checkpoint(Callback):
    """Saves checkpoints into a folder: `last.ckpt` always, `best.ckpt` on request.

    `last.ckpt` is written after every `every_epochs` epochs, after every `every_steps` optimizer
    steps, at the end, and on Ctrl-C; `best.ckpt` whenever `monitor` has its best value so far. A
    file is replaced in one step, so a crash while saving leaves the previous one whole.
    `learner.fit(..., resume=folder)` continues from `last.ckpt`.

    Parameters
    ----------
    folder : str or Path
        Where the files are; it is made if it does not exist.
    every_epochs : int
        Epochs between two checkpoints; at least 1.
    every_steps : int, optional
        Optimizer steps between two checkpoints; only epochs count if left out.
    monitor : str, optional
        The name of the number in the history that decides which epoch is the best; no `best.ckpt`
        if left out.
    direction : {"min", "max"}, optional
        Whether the number should fall or rise; see :class:`EarlyStopping`.

    Raises
    ------
    ArgumentError
        If a number is below 1, or `direction` is unknown.

    Examples
    --------
    >>> from calor_train import Checkpoint
    >>> Checkpoint("run", monitor="valid_loss").best.name
    'best.ckpt'
    """

    priority = 100

    def __init__(
        self,
        folder: str | Path,
        *,
        every_epochs: int = 1,
        every_steps: int | None = None,
        monitor: str | None = None,
        direction: Direction | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.every_epochs = every_epochs
        self.every_steps = every_steps
        self.monitor = None if monitor is None else Monitor(monitor, direction)
        self._saved_at: tuple[int, int] | None = None
        self._compared_at: tuple[int, int] | None = None
        self._improved = False

    @property
    def last(self) -> Path:
        """The file of the last checkpoint."""
        return self.folder / "last.ckpt"

    @property
    def best(self) -> Path:
        """The file of the best checkpoint."""
        return self.folder / "best.ckpt"

    def on_fit_begin(self, learner: Run) -> None:
        """Make the folder, so that a wrong path fails before the work and not after it.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.monitor is not None and learner.epoch == learner.steps == 0:
            self.monitor.best = None
        self._saved_at = self._compared_at = None

    def _save_last(self, learner: Run) -> None:
        learner.save(self.last)
        self._saved_at = (learner.epoch, learner.steps)

    def on_step_end(self, learner: Run) -> None:
        """Save if this step is due.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """
        if self.every_steps is not None and learner.steps % self.every_steps == 0:
            self._save_last(learner)

    def on_epoch_end(self, learner: Run) -> None:
        """Save if this epoch is due, and if it is the best one.

        Parameters
        ----------
        learner : Learner
            The learner that trains.

        Raises
        ------
        ArgumentError
            If the history does not have the number to monitor.
        """
        # A file holds the best values of all, so each is known before the first file is written.
        for callback in (self, *learner.callbacks):
            if isinstance(callback, Checkpoint):
                callback._compare(learner)
        if self._improved:
            learner.save(self.best)
        if learner.epoch % self.every_epochs == 0:
            self._save_last(learner)

    def _compare(self, learner: Run) -> None:
        """Compare the last epoch with the best one, once."""
        now = (learner.epoch, learner.steps)
        if self._compared_at != now:
            self._improved = self.monitor is not None and self.monitor.improved(learner.history[-1])
            self._compared_at = now

    def on_interrupt(self, learner: Run) -> None:
        """Save the present state.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """
        self._save_last(learner)

    def on_fit_end(self, learner: Run) -> None:
        """Save the end of a completed run, unless it is saved already.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """
        if learner.completed and self._saved_at != (learner.epoch, learner.steps):
            self._save_last(learner)

    def state_dict(self) -> dict[str, Any]:
        """Return the best value.

        Returns
        -------
        dict of str to Any
            The key "best".
        """
        return {"best": None if self.monitor is None else self.monitor.best}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the best value.

        Parameters
        ----------
        state_dict : mapping of str to Any
            What `state_dict` returned.
        """
        if self.monitor is not None:
            self.monitor.best = state_dict["best"]


class CSVLog(Callback):
    """Writes the history as a table of comma-separated values after each epoch.

    Parameters
    ----------
    path : str or Path
        The file, which is replaced in one step; its folder is made if it does not exist.

    Examples
    --------
    >>> from calor_train import CSVLog
    >>> CSVLog("run/history.csv").path.name
    'history.csv'
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def on_fit_begin(self, learner: Run) -> None:
        """Make the folder.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def on_epoch_end(self, learner: Run) -> None:
        """Write the table.

        Parameters
        ----------
        learner : Learner
            The learner that trains.
        """
        names = dict.fromkeys(name for row in learner.history for name in row)
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(names), restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(learner.history)
        part = self.path.with_name(f".{self.path.name}.part")
        part.write_text(text.getvalue(), "utf-8", newline="")
        part.replace(self.path)
