"""Watching the loss: every value is checked, but not every step waits for the device."""

from __future__ import annotations

import math
from typing import Any, Final

import calor
from calor import Tensor
from calor_train.errors import NonFiniteLossError
from calor_train.optimizers import Optimizer

# How many losses may be unchecked, which bounds how late an error is found.
LIMIT: Final = 32


class LossWatch:
    """Checks the loss of each step and raises NonFiniteLossError at the first that is not finite.

    With ``every_step`` each loss is read at once, otherwise in groups and when ``last`` is read.
    """

    def __init__(self, optimizer: Optimizer, every_step: bool) -> None:
        self.optimizer = optimizer
        self.every_step = every_step
        self._pending: list[tuple[int, int, Tensor]] = []
        self._last = math.nan

    def add(self, epoch: int, batch: int, loss: Tensor) -> None:
        """Add the loss of a batch; epochs and batches are counted from 1."""
        self._pending.append((epoch, batch, loss))
        if self.every_step or len(self._pending) >= LIMIT:
            self.look()

    def look(self) -> None:
        """Check every loss added so far."""
        pending, self._pending = self._pending, []
        for epoch, batch, loss in pending:
            self._last = float(loss)
            if not math.isfinite(self._last):
                raise NonFiniteLossError(self._explanation(epoch, batch, self._last))

    def forget(self) -> None:
        """Drop all losses."""
        self._pending = []
        self._last = math.nan

    @property
    def last(self) -> float:
        """The loss of the last batch; NaN before the first."""
        self.look()
        return self._last

    def _explanation(self, epoch: int, batch: int, loss: float) -> str:
        rates = ", ".join(f"{float(group.lr):g}" for group in self.optimizer.param_groups)
        broken = broken_parameters(self.optimizer)
        state = f"not finite are: {', '.join(broken)}" if broken else "all parameters are finite"
        return (
            f"the loss is {loss} in batch {batch} of epoch {epoch} (learning rate {rates}); "
            f"{state}. Lower the learning rate or warm it up, clip gradients (clip_norm=1.0), and "
            f"look for NaN in the data and for log, division or square root of 0 in the loss"
        )


def broken_parameters(optimizer: Optimizer, limit: int = 5) -> list[str]:
    """Return the names of parameters with NaN or infinite elements, at most ``limit`` of them."""
    names = []
    for group in optimizer.param_groups:
        for name, p in zip(group.names, group.params, strict=True):
            finite: Any = calor.all(calor.isfinite(p.detach())).item()
            if not finite:
                names.append(name)
    return names if len(names) <= limit else [*names[:limit], f"and {len(names) - limit} more"]
