"""A schedule that ends at a rate of its own, for the averaging of weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from calor_train.schedules import Schedule


@dataclass(frozen=True)
class AnnealTo(Schedule):
    """From the base rate to another one, which then stays, as in torch's SWALR.

    Parameters
    ----------
    rate : float
        The last rate, whatever the base is.
    steps : int
        Steps until it is reached; 0 for at once.
    curve : {"cos", "linear"}
        Half a wave of a cosine, or a straight line.

    Raises
    ------
    ArgumentError
        If `steps` is below 0, or the curve has another name.

    References
    ----------
    Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization", 2018.

    Examples
    --------
    >>> from calor_train import AnnealTo
    >>> AnnealTo(0.5, 4, "linear").table(6)
    [1.0, 0.875, 0.75, 0.625, 0.5, 0.5]
    """

    rate: float
    steps: int = 10
    curve: Literal["cos", "linear"] = "cos"

    def value(self, step: int, base: float) -> float:
        if step >= self.steps:
            return self.rate
        share = step / self.steps
        if self.curve == "cos":
            share = (1 - math.cos(math.pi * share)) / 2
        return base + (self.rate - base) * share
