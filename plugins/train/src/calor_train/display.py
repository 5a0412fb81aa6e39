"""The progress display: a live screen in a terminal, plain lines elsewhere, or nothing.

Requirements: in a terminal one sees at any time the epoch, the step, loss and metrics, throughput
and the time left; a log file holds one readable line for each epoch and no control characters. The
screen never makes a device wait more than a few times a second.
"""

from __future__ import annotations

import math
import sys
from typing import Final, Literal

from calor.errors import ArgumentError
from calor_train.callbacks import Callback
from calor_train.pace import Pace, duration
from calor_train.run import Run
from calor_train.screens import LOOK, Screen, Status, epoch_texts, texts

Mode = Literal["auto", "live", "lines", "quiet"]

# Seconds between two lines within an epoch.
LINE: Final = 10.0


class Display(Callback):
    """Shows how a run goes; made by the learner from its ``display`` argument."""

    priority = -100

    def __init__(self, mode: Mode = "auto") -> None:
        if mode not in ("auto", "live", "lines", "quiet"):
            raise ArgumentError(f'display must be "auto", "live", "lines" or "quiet", not {mode!r}')
        self.mode: Mode = mode
        self.pace = Pace()
        self.screen: Screen | None = None
        self._running = False
        self._seen = 0
        self._looked = self._lined = 0.0

    def on_fit_begin(self, learner: Run) -> None:
        """Open the screen."""
        self.screen = _open(self.mode)
        self.pace.start()
        self._seen = learner.samples
        self._running = True
        self._looked = self._lined = self.pace.clock()
        if self.screen is not None:
            self.screen.begin(learner)

    def on_epoch_begin(self, learner: Run) -> None:
        """Show that training goes on."""
        self.pace.resume()
        self._show(learner, "training")

    def on_step_end(self, learner: Run) -> None:
        """Show the step, when something was not shown for a while."""
        self.pace.batch(learner.samples - self._seen)
        self._seen = learner.samples
        now = self.pace.clock()
        if self.screen is not None and now - self._looked >= self.screen.interval:
            self._show(learner, "training")
            self._looked = now

    def on_evaluate_begin(self, learner: Run) -> None:
        """Show that validation data is read."""
        if self._running:
            self.pace.evaluation_began()
            self._show(learner, "evaluating")

    def on_evaluate_step(self, learner: Run) -> None:
        """Show the batch."""
        now = self.pace.clock()
        if self._running and self.screen is not None and now - self._looked >= LOOK:
            self.screen.progress(self.status(learner, "evaluating", {}))
            self._looked = now

    def on_evaluate_end(self, learner: Run) -> None:
        """Note how long it took."""
        if self._running:
            self.pace.evaluation_ended()

    def on_epoch_end(self, learner: Run) -> None:
        """Show the epoch's numbers."""
        if self.screen is not None:
            self.screen.epoch(learner, self._left(learner))
        self._looked = self._lined = self.pace.clock()

    def on_fit_end(self, learner: Run) -> None:
        """Say how it ended, and close the screen."""
        self._running = False
        if self.screen is None:
            return
        done = f"{learner.epoch} of {learner.epochs} epochs"
        time = duration(self.pace.elapsed)
        if learner.stop_reason is not None:
            text = f"stopped after {done} in {time}: {learner.stop_reason}"
        elif learner.completed:
            text = f"finished {done} in {time}"
        else:
            text = f"failed after {done} in {time}"
        self.screen.end(text)
        self.screen = None

    def _show(self, learner: Run, phase: str) -> None:
        if self.screen is None:
            return
        values: dict[str, str] = {}
        # After a resume no batch may have been trained on yet.
        if phase == "training" and learner.batch and not math.isnan(learner.last_loss):
            numbers = {"loss": learner.last_loss}
            numbers |= {m.name: m.compute() for m in learner.metrics[1:]}
            values = texts(learner, numbers)
        self.screen.progress(self.status(learner, phase, values))

    def status(self, learner: Run, phase: str, values: dict[str, str]) -> Status:
        """Return what is shown of the present moment."""
        training = phase == "training"
        return Status(
            epoch=min(learner.epoch + 1, learner.epochs),
            epochs=learner.epochs,
            phase=phase,
            batch=learner.batch if training else learner.evaluated_batches,
            batches=learner.train_batches if training else learner.valid_batches,
            values=values,
            rate=self.pace.samples_per_second,
            left=self._left(learner),
        )

    def _left(self, learner: Run) -> float:
        epochs = learner.epochs - learner.epoch
        evaluations = epochs if learner.validates else 0
        if learner.train_batches is None:
            return math.nan
        return self.pace.left(epochs * learner.train_batches - learner.batch, evaluations)


class _Lines(Screen):
    """One line for each epoch, and one now and then within long ones."""

    interval = LINE

    def __init__(self) -> None:
        self.file = sys.stdout

    def progress(self, status: Status) -> None:
        if status.phase == "training" and status.batch:
            self._print("  ".join([status.place(), *status.parts()]))

    def epoch(self, learner: Run, left: float) -> None:
        found = epoch_texts(learner)
        parts = [f"{name} {text}" for name, text in found.items() if name != "samples/s"]
        parts.insert(-1, f"{found['samples/s']} samples/s")
        if learner.epoch < learner.epochs and math.isfinite(left):
            parts.append(f"{duration(left)} left")
        self._print("  ".join(parts))

    def end(self, text: str) -> None:
        self._print(text)

    def _print(self, text: str) -> None:
        print(text, file=self.file, flush=True)


def _open(mode: Mode) -> Screen | None:
    # Imported when a run is shown: the package for screens is large.
    from calor_train import live_screen

    if mode == "quiet":
        return None
    if mode == "lines":
        return _Lines()
    return live_screen.LiveScreen() if mode == "live" or live_screen.usable() else _Lines()
