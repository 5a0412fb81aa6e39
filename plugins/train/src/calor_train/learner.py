"""The learner: trains a model epoch by epoch, measures, saves, and continues where it stopped."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import calor
from calor import Tensor
from calor.errors import ArgumentError
from calor_nn.module import Module
from calor_train.callbacks import Callback, Checkpoint
from calor_train.checkpoints import load_checkpoint, save_checkpoint
from calor_train.data import DataLoader
from calor_train.display import Display, Mode
from calor_train.interruption import Interruption
from calor_train.metrics import Loss, Metric, batch_length
from calor_train.optimizers import Optimizer
from calor_train.passes import (
    batches_of,
    check_repeatable,
    evaluating,
    fresh,
    length_of,
    one_pass,
)
from calor_train.run import Row, Run
from calor_train.scaling import GradScaler
from calor_train.scheduler import Scheduler
from calor_train.snapshot import random_state
from calor_train.steps import Forward, GradientSum, Precision, Steps, default_forward
from calor_train.watch import LossWatch

_END: Any = object()


class Learner(Run):
    """Trains a model: batches in, weights and a history of numbers out.

    After `fit`, `history` has one row of numbers for each epoch. `stop_reason` says why the run
    ended early, "interrupted" after Ctrl-C, and is None if it is complete.

    Parameters
    ----------
    model : Module
        The model; its parameters are on one device.
    optimizer : Optimizer
        Made with the parameters of the model.
    loss : callable
        A function `f(outputs, targets)` that returns a mean over the batch, of shape ().
    metrics : sequence of Metric
        What is measured besides the loss, over training and validation data.
    schedule : Scheduler, optional
        Stepped after each optimizer step, or each epoch.
    schedule_every : {"step", "epoch"}
        When the schedule is stepped.
    accumulate : int
        Batches whose gradients make one optimizer step; exact for batches of unequal size too.
    clip_norm : float, optional
        The limit of the gradients' global norm; see :func:`clip_grad_norm_`.
    clip_value : float, optional
        The bound of each gradient's elements; see :func:`clip_grad_value_`.
    callbacks : sequence of Callback
        What else happens around the steps.
    jit : bool
        Compile the steps; False runs them op by op, for debugging.
    display : {"auto", "live", "lines", "quiet"}
        How progress is shown; "auto" is a live screen in a terminal and lines elsewhere.
    forward : callable
        A function `f(model, batch) -> (outputs, targets)`, for batches that are not (inputs,
        targets).
    precision : {"float32", "bfloat16", "float16"}
        The type of products in the forward pass, as by `calor.autocast`. Parameters, gradients and
        optimizer stay float32. With "float16" the loss is scaled by a :class:`GradScaler`, and
        steps whose gradients overflow are skipped.

    Raises
    ------
    ArgumentError
        If `accumulate` is below 1, `schedule_every` or `precision` is unknown, or two metrics have
        one name.

    Examples
    --------
    >>> import calor
    >>> from calor_nn import Linear, functional
    >>> from calor_train import SGD, ArrayDataset, DataLoader, Learner
    >>> model = Linear(1, 1)
    >>> data = ArrayDataset(calor.asarray([[1.0], [2.0]]), calor.asarray([[2.0], [4.0]]))
    >>> learner = Learner(model, SGD(model, 0.1, 0.9), functional.mse_loss, display="quiet")
    >>> history = learner.fit(DataLoader(data, 2), epochs=200)
    >>> history[-1]["loss"] < 1e-4
    True
    """

    def __init__(
        self,
        model: Module,
        optimizer: Optimizer,
        loss: Any,
        *,
        metrics: Sequence[Metric] = (),
        schedule: Scheduler | None = None,
        schedule_every: Literal["step", "epoch"] = "step",
        accumulate: int = 1,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        callbacks: Sequence[Callback] = (),
        jit: bool = True,
        display: Mode = "auto",
        forward: Forward = default_forward,
        precision: Precision = "float32",
    ) -> None:
        names = [metric.name for metric in metrics]
        if len({"loss", *names}) != len(names) + 1:
            raise ArgumentError(f'metrics must have different names other than "loss", not {names}')
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.schedule = schedule
        self.schedule_every = schedule_every
        self.accumulate = accumulate
        self.jit = jit
        self.device = optimizer.params[0].device
        self.display = Display(display)
        self.callbacks = sorted([self.display, *callbacks], key=lambda c: c.priority)
        with calor.device(self.device):
            self.metrics: list[Metric] = [Loss(), *(fresh(m) for m in metrics)]
            self.valid_metrics: list[Metric] = [fresh(m) for m in self.metrics]
        for metric in (*self.metrics, *self.valid_metrics):
            metric.to(self.device)
        self.scaler = GradScaler(device=self.device) if precision == "float16" else None
        self.steps_of = Steps(
            forward,
            jit=jit,
            clip_norm=clip_norm,
            clip_value=clip_value,
            precision=precision,
            scaler=self.scaler,
        )
        self.sums = GradientSum(optimizer.params) if accumulate > 1 else None
        self.watch = LossWatch(optimizer, every_step=not jit)
        # Progress; all of it is in a checkpoint.
        self.epoch = 0
        self.steps = 0
        self.batch = 0
        self.rate = float(optimizer.lr)
        self.phase: Literal["train", "evaluate"] = "train"
        self.history: list[Row] = []
        # The present run.
        self.epochs = 0
        self.completed = False
        self.stop_reason: str | None = None
        self.samples = 0
        self.validates = False
        self.train_batches: int | None = None
        self.valid_batches: int | None = None
        self.evaluated_batches = 0
        self.loaders: dict[str, DataLoader] = {}
        self.before_evaluation: dict[str, Any] | None = None
        self._epoch_started = self._train_seconds = 0.0
        self._epoch_samples = 0

    # Training.

    def fit(
        self,
        train: Iterable[Any],
        valid: Iterable[Any] | None = None,
        *,
        epochs: int,
        resume: str | Path | None = None,
    ) -> list[Row]:
        """Train for some epochs.

        Ctrl-C stops the run after the present step, a second one at once.

        Parameters
        ----------
        train : iterable
            Batches anew at each iteration, such as a :class:`DataLoader` or a list; their parts
            are tensors, or arrays of NumPy or of another library. A generator serves one epoch.
        valid : iterable, optional
            Batches to evaluate on after each epoch; no evaluation if left out.
        epochs : int
            How many epochs; with `resume` how many in all.
        resume : str or Path, optional
            A checkpoint, or the folder of a :class:`Checkpoint`; "auto" for the folder of the
            learner's own one, where the first run finds nothing and begins anew. The run that made
            it is continued, with the same numbers as if it had never stopped. If left out, epochs
            are counted from 0, and weights and optimizer go on as they are.

        Returns
        -------
        list of dict
            The history: one row for each epoch, with the loss, the metrics, the learning rate and
            the time in seconds.

        Raises
        ------
        ArgumentError
            If `epochs` is negative, a loader gives no batches, or one of several epochs is a
            generator.
        NonFiniteLossError
            If the loss becomes NaN or infinite.
        CheckpointError
            If the checkpoint does not fit.
        """
        with calor.device(self.device), Interruption() as interruption:
            self._prepare(train, valid, epochs)
            path = self._auto() if resume == "auto" else resume
            if path is not None:
                path = Path(path)
                self.load(path / "last.ckpt" if path.is_dir() else path)
            try:
                self._call("on_fit_begin")
                while self.epoch < epochs and self.stop_reason is None:
                    self._run_epoch(train, valid, interruption)
                self.completed = self.stop_reason != "interrupted"
            finally:
                self._call("on_fit_end")
        return self.history

    def _auto(self) -> Path | None:
        """Return the checkpoint that this learner's own callback wrote last, None if none is."""
        written = [c.last for c in self.callbacks if isinstance(c, Checkpoint)]
        if not written:
            raise ArgumentError(
                'resume="auto" goes on from the folder of a Checkpoint; pass one in callbacks=, or '
                "the path of a checkpoint as resume="
            )
        return written[0] if written[0].exists() else None

    def stop(self, reason: str) -> None:
        """End the run after the present step; callbacks call this.

        Parameters
        ----------
        reason : str
            Why; the first reason is kept in `stop_reason`.
        """
        if self.stop_reason is None:
            self.stop_reason = reason

    @property
    def last_loss(self) -> float:
        """The loss of the last batch trained on, NaN before the first."""
        return self.watch.last

    def _prepare(self, train: Any, valid: Any, epochs: int) -> None:
        if epochs < 0:
            raise ArgumentError(f"epochs must be at least 0, not {epochs}")
        check_repeatable(train, "train", epochs)
        check_repeatable(valid, "valid", epochs)
        self.epoch = self.steps = self.batch = self.samples = 0
        self.phase = "train"
        self.history = []
        self.epochs = epochs
        self.completed = False
        self.stop_reason = None
        self.before_evaluation = None
        # Gradients left by a run that ended in an error, or by the user's own backward().
        self.optimizer.zero_grad()
        self.watch.forget()
        if self.sums is not None:
            self.sums.clear()
        if self.scaler is not None:
            self.scaler.forget()
        self.validates = valid is not None
        self.train_batches = length_of(train)
        self.valid_batches = None if valid is None else length_of(valid)
        loaders = {"train": train, "valid": valid}
        self.loaders = {k: v for k, v in loaders.items() if isinstance(v, DataLoader)}

    def _run_epoch(self, train: Any, valid: Any, interruption: Interruption) -> None:
        self._epoch_started = time.perf_counter()
        self._epoch_samples = 0
        if self.phase == "train":
            if self.batch == 0:
                for metric in self.metrics:
                    metric.reset()
            self.model.train()
            self._call("on_epoch_begin")
            if not self._train(train, interruption):
                return self._interrupted(interruption)
            if self.batch == 0:
                raise ArgumentError(
                    "the training loader gave no batches; is the dataset empty, or smaller than "
                    "a batch that drop_last=True leaves out?"
                )
            self.watch.look()
            self._train_seconds = time.perf_counter() - self._epoch_started
            self.phase = "evaluate"
        row = self._row(self.metrics, "")
        if valid is not None:
            self.before_evaluation = self._outside_state()
            if interruption.requested or not self._evaluate(valid, interruption):
                return self._interrupted(interruption)
            row |= self._row(self.valid_metrics, "valid_")
            self.before_evaluation = None
        self._finish_epoch(row)
        if interruption.requested:
            self._interrupted(interruption)
        return None

    def _train(self, loader: Any, interruption: Interruption) -> bool:
        """Run the rest of an epoch's batches; return whether it came to its end."""
        if isinstance(loader, DataLoader) and self.batch > loader.position:
            # Stored after the epoch's last batch, where a loader stands at the next epoch's first.
            return True
        with one_pass(loader) as batches:
            if not isinstance(loader, DataLoader):
                for _ in range(self.batch):
                    next(batches, None)
            return self._train_on(batches, interruption)

    def _train_on(self, batches: Iterator[Any], interruption: Interruption) -> bool:
        collected: list[bool] | None = None
        count = 0
        while True:
            if collected is None and (interruption.requested or self.stop_reason is not None):
                return False
            batch = next(batches, _END)
            if batch is _END:
                break
            self.batch += 1
            length = batch_length(batch)
            self.samples += length
            self._epoch_samples += length
            if self.sums is None:
                arguments = (self.model, self.optimizer, self.metrics, self.loss, batch)
                self.watch.add(self.epoch + 1, self.batch, self.steps_of.train(*arguments))
                self._step_made()
                continue
            collected = self._collect(batch, collected)
            count += 1
            if count == self.accumulate:
                self._change(collected)
                collected, count = None, 0
        if collected is not None:
            self._change(collected)
        return True

    def _collect(self, batch: Any, before: list[bool] | None) -> list[bool]:
        loss, present = self.steps_of.collect(
            self.model, self.optimizer, self.sums, self.metrics, self.loss, batch
        )
        self.watch.add(self.epoch + 1, self.batch, loss)
        if before is None:
            return list(present)
        return [a or b for a, b in zip(before, present, strict=True)]

    def _change(self, present: list[bool]) -> None:
        self.steps_of.change(self.optimizer, self.sums, present=tuple(present))
        self._step_made()

    def _step_made(self) -> None:
        self.steps += 1
        self.rate = float(self.optimizer.lr)
        if self.schedule is not None and self.schedule_every == "step":
            self.schedule.step()
        self._call("on_step_end")

    def _finish_epoch(self, row: Row) -> None:
        seconds = time.perf_counter() - self._epoch_started
        row = {"epoch": self.epoch + 1, **row, "lr": self.rate, "seconds": seconds}
        row["samples_per_second"] = self._epoch_samples / max(self._train_seconds, 1e-9)
        if self.schedule is not None and self.schedule_every == "epoch":
            self.schedule.step()
        self.history.append(row)
        self.epoch += 1
        self.batch = 0
        self.phase = "train"
        self._call("on_epoch_end")

    def _interrupted(self, interruption: Interruption) -> None:
        if interruption.requested:
            self.stop_reason = "interrupted"
            self.watch.look()
            self._call("on_interrupt")

    # Evaluation.

    def evaluate(self, loader: Iterable[Any]) -> dict[str, Any]:
        """Return the loss and all metrics over a loader.

        Parameters
        ----------
        loader : iterable
            Batches anew at each iteration, such as a :class:`DataLoader`.

        Returns
        -------
        dict of str to Any
            Values by name: floats, and arrays of metrics that compute one.

        Raises
        ------
        ArgumentError
            If the loader gives no batches.
        KeyboardInterrupt
            If Ctrl-C stops the evaluation.
        """
        with calor.device(self.device), Interruption() as interruption:
            if not self._evaluate(loader, interruption):
                raise KeyboardInterrupt
        return {metric.name: metric.compute() for metric in self.valid_metrics}

    def predict(self, loader: Iterable[Any]) -> Tensor:
        """Return the outputs for all batches, joined along the first axis.

        Parameters
        ----------
        loader : iterable
            Batches as in training; one that is a tensor, or a tuple of one, is inputs alone. A
            tensor or an array of shape (N, *S) in place of a loader is one batch.

        Returns
        -------
        Tensor
            Shape (N, *S) for N samples.

        Raises
        ------
        ArgumentError
            If the loader gives no batches.
        ShapeError
            If the outputs of two batches do not fit.
        """
        inputs = batches_of(loader)
        with calor.device(self.device), evaluating(self.model), one_pass(inputs) as batches:
            parts = [self.steps_of.predict(self.model, batch) for batch in batches]
        if not parts:
            raise ArgumentError("predict: the loader gave no batches; is the dataset empty?")
        return calor.concat(parts, axis=0)

    def _evaluate(self, loader: Any, interruption: Interruption) -> bool:
        for metric in self.valid_metrics:
            metric.reset()
        self.evaluated_batches = 0
        self.valid_batches = length_of(loader)
        with evaluating(self.model), one_pass(loader) as batches:
            self._call("on_evaluate_begin")
            for batch in batches:
                self.steps_of.evaluate(self.model, self.valid_metrics, self.loss, batch)
                if not self.jit:
                    # Pending values are computed after each batch, so that they do not pile up.
                    calor.eval([metric.state for metric in self.valid_metrics])
                self.evaluated_batches += 1
                self._call("on_evaluate_step")
                if interruption.requested:
                    return False
            if self.evaluated_batches == 0:
                raise ArgumentError("the loader to evaluate gave no batches; is the dataset empty?")
            self._call("on_evaluate_end")
        return True

    def _row(self, metrics: Sequence[Metric], prefix: str) -> Row:
        values = {prefix + metric.name: metric.compute() for metric in metrics}
        return {name: value for name, value in values.items() if isinstance(value, float)}

    # Checkpoints.

    def save(self, path: str | Path) -> None:
        """Write a checkpoint, whole or not at all.

        It holds weights, optimizer, schedule, position in the data, random state, metrics and
        history.

        Parameters
        ----------
        path : str or Path
            The file, which is replaced if it exists.

        Raises
        ------
        NonFiniteLossError
            If a loss that was not checked yet is NaN or infinite.
        """
        self.watch.look()
        save_checkpoint(self, Path(path))

    def load(self, path: str | Path) -> None:
        """Restore everything from a checkpoint; `fit(resume=path)` does this and goes on.

        Parameters
        ----------
        path : str or Path
            The file.

        Raises
        ------
        CheckpointError
            If the file is missing, broken, or does not fit; nothing is changed.
        """
        with calor.device(self.device):
            load_checkpoint(self, Path(path))

    def outside_state(self) -> dict[str, Any]:
        """Return the state of the loaders and of the global random numbers.

        During an evaluation it is the state before it, since an interrupted evaluation is repeated.

        Returns
        -------
        dict of str to Any
            The keys "random" and "loaders".
        """
        if self.before_evaluation is not None:
            return self.before_evaluation
        return self._outside_state()

    def _outside_state(self) -> dict[str, Any]:
        loaders = {name: loader.state_dict() for name, loader in self.loaders.items()}
        return {"random": random_state(), "loaders": loaders}

    def _call(self, name: str) -> None:
        for callback in self.callbacks:
            getattr(callback, name)(self)
