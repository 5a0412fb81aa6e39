"""What a display shows of a run, as texts, and where it shows them."""

from __future__ import annotations

import math
from typing import Any, Final

from calor_train.pace import duration
from calor_train.run import Run

# Seconds between two looks at the loss.
LOOK: Final = 0.1


class Status:
    """What is shown of one moment of a run."""

    def __init__(
        self,
        *,
        epoch: int,
        epochs: int,
        phase: str,
        batch: int,
        batches: int | None,
        values: dict[str, str],
        rate: float,
        left: float,
    ) -> None:
        self.epoch = epoch
        self.epochs = epochs
        self.phase = phase
        self.batch = batch
        self.batches = batches
        self.values = values
        self.rate = rate
        self.left = left

    def parts(self) -> list[str]:
        """Return the texts beside the bar: values, throughput, time left."""
        parts = [f"{name} {value}" for name, value in self.values.items()]
        if math.isfinite(self.rate):
            parts.append(f"{self.rate:,.0f} samples/s")
        if math.isfinite(self.left):
            parts.append(f"{duration(self.left)} left")
        return parts

    def place(self) -> str:
        """Return the epoch and the batch as text."""
        return f"epoch {self.epoch}/{self.epochs}  {self.phase} {self.batch}/{self.batches or '?'}"


def texts(learner: Run, row: dict[str, Any]) -> dict[str, str]:
    """Return the metrics in a row as names and texts for people."""
    percent = {m.name for m in learner.metrics if m.percent}
    found = {}
    for name, value in row.items():
        if not isinstance(value, float):
            continue
        plain = name.removeprefix("valid_")
        shown = f"valid {plain}" if plain != name else name
        found[shown] = f"{100 * value:.2f} %" if plain in percent else number_text(value)
    return found


def number_text(value: float) -> str:
    """Return a number with about four digits.

    >>> from calor_train.screens import number_text
    >>> number_text(0.12345), number_text(3e-5), number_text(12345.6)
    ('0.1235', '3.00e-05', '1.23e+04')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e4 or not math.isfinite(value):
        return f"{value:.4f}"
    return f"{value:.2e}"


def epoch_texts(learner: Run) -> dict[str, str]:
    """Return the last row of the history as names and texts."""
    row = dict(learner.history[-1])
    epoch, rate = row.pop("epoch"), row.pop("lr")
    seconds, throughput = row.pop("seconds"), row.pop("samples_per_second")
    return {
        "epoch": f"{epoch}/{learner.epochs}",
        **texts(learner, row),
        "lr": f"{rate:.2e}",
        "samples/s": f"{throughput:,.0f}",
        "time": duration(seconds),
    }


class Screen:
    """Where a display shows things."""

    interval = LOOK

    def begin(self, learner: Run) -> None: ...

    def progress(self, status: Status) -> None: ...

    def epoch(self, learner: Run, left: float) -> None: ...

    def end(self, text: str) -> None: ...
